import { Button, Checkbox, Modal, TextInput } from '@mantine/core';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { Explained, Failure } from './basic';

type DialogProps = {
  title: string;
  /** What the button does, as in "Delete volume". */
  does: string;
  children?: ReactNode;
  danger?: boolean;
  ready?: boolean;
  /** Why it cannot be done as things are, if it cannot. */
  unless?: string | null;
  busy: boolean;
  error: unknown;
  onClose: () => void;
  onDo: () => void;
};

/** A change that is ordered here: what it means, what went wrong, one button that does it. */
export function Dialog(props: DialogProps) {
  const { title, does, children, danger = false, busy, error, onClose, onDo } = props;
  const { unless = null } = props;
  const ready = (props.ready ?? true) && unless === null;
  useFocusBack();
  const order = (
    <Button type="submit" color={danger ? 'red.8' : undefined} disabled={!ready} loading={busy}>
      {does}
    </Button>
  );
  return (
    <Modal opened onClose={onClose} title={title} closeButtonProps={{ 'aria-label': 'Close' }}>
      <form
        className="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          if (ready && !busy) onDo();
        }}
      >
        {children}
        {error ? <Failure error={error} /> : null}
        <div className="dialog-buttons">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          {unless === null ? (
            order
          ) : (
            <Explained tip={unless} className="refused">
              {order}
            </Explained>
          )}
        </div>
      </form>
    </Modal>
  );
}

/** Who came by keyboard is where the dialog was opened from when it is gone. */
function useFocusBack(): void {
  const [before] = useState(() => document.activeElement);
  const open = useRef(false);
  useEffect(() => {
    open.current = true;
    return () => {
      open.current = false;
      // Effects may end and begin again while the dialog stays.
      setTimeout(() => {
        if (!open.current && before instanceof HTMLElement && before.isConnected) before.focus();
      });
    };
  }, [before]);
}

/** What cannot be undone is named letter by letter first. */
export function TypedName({
  name,
  value,
  onChange,
}: {
  name: string;
  value: string;
  onChange: (to: string) => void;
}) {
  return (
    <TextInput
      data-autofocus
      label={
        <>
          Type <code>{name}</code> to confirm
        </>
      }
      autoComplete="off"
      spellCheck={false}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}

export function Tick({
  label,
  value,
  onChange,
}: {
  label: string;
  value: boolean;
  onChange: (to: boolean) => void;
}) {
  return (
    <Checkbox
      size="sm"
      label={label}
      checked={value}
      onChange={(event) => onChange(event.currentTarget.checked)}
    />
  );
}

/** Which dialog is open, if one is. */
export function useDialog<K extends string>(): [K | null, (kind: K) => void, () => void] {
  const [open, setOpen] = useState<K | null>(null);
  return [open, setOpen, () => setOpen(null)];
}
