import { Button, Switch, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useChange } from '../api/queries';
import { isSame } from '../text/typed';
import { Failure } from './basic';
import { Outdated, type Tagged, unchanged } from './outdated';
import { RoleButton, useRefusal } from './role';
import { say } from './say';

/** A value that is typed. */
export type TypedField<T, K extends string> = {
  key: K;
  label: string;
  means: string;
  /** As it is shown, of what there is. */
  write: (now: T) => string;
  /** What is wrong with what was typed, if it is another text than what is shown. */
  fault: (text: string, now: T) => string | undefined;
};

type Props<T extends Tagged, K extends string, C extends object> = {
  /** As it is on record now. */
  latest: T;
  fields: TypedField<T, K>[];
  /** A value that is on or off. */
  toggle?: { label: string; means: string; of: (now: T) => boolean };
  /** What was typed, as a change of what there is; null if something of it is not understood. */
  changed: (now: T, typed: Partial<Record<K, string>>, toggled: boolean | null) => C | null;
  send: (body: C, header: { 'If-Match'?: string }) => Promise<unknown>;
  /** What is said when it is done. */
  done: string;
  /** What the buttons are called. */
  saves: string;
  undoes?: string;
};

/** Values of the whole cluster that an administrator sets together; anybody else sees them, and why they are only seen. */
export function SetForm<T extends Tagged, K extends string, C extends object>(
  props: Props<T, K, C>,
) {
  const { latest, fields, toggle, changed, send, done, saves, undoes } = props;
  const [typed, setTyped] = useState<Partial<Record<K, string>>>({});
  const [toggled, setToggled] = useState<boolean | null>(null);
  /** What one has begun to change: from then on it does not become another under one's hands. */
  const [shown, setShown] = useState<T | null>(null);
  const why = useRefusal('administrator');
  const now = shown ?? latest;
  const save = useChange((body: C) => send(body, unchanged(now)));
  const begin = () => {
    setTyped({});
    setToggled(null);
    setShown(null);
  };
  const change = changed(now, typed, toggled);
  const isOn = toggled ?? toggle?.of(now) ?? false;
  const nothing = change !== null && Object.keys(change).length === 0;
  return (
    <form
      className="settings"
      onSubmit={(event) => {
        event.preventDefault();
        if (why !== null || change === null || nothing) return;
        save.mutate(change, {
          onSuccess: () => {
            say(done);
            begin();
          },
        });
      }}
    >
      {why === null ? null : <p className="note">They can be seen, and not changed. {why}</p>}
      {fields.map(({ key, label, means, write, fault }) => {
        const text = typed[key] ?? write(now);
        return (
          <TextInput
            key={key}
            label={label}
            description={means}
            value={text}
            autoComplete="off"
            readOnly={why !== null}
            error={isSame(text, write(now)) ? undefined : fault(text, now)}
            onChange={(event) => {
              setShown(now);
              setTyped({ ...typed, [key]: event.currentTarget.value });
            }}
          />
        );
      })}
      {toggle ? (
        <Switch
          // One that cannot be used is pale: it says how it stands.
          label={why === null ? toggle.label : `${toggle.label}: ${isOn ? 'on' : 'off'}`}
          description={toggle.means}
          disabled={why !== null}
          checked={isOn}
          onChange={(event) => {
            setShown(now);
            setToggled(event.currentTarget.checked);
          }}
        />
      ) : null}
      {save.error ? <Failure error={save.error} /> : null}
      <Outdated order={save} shown={now} latest={latest} onShow={begin} />
      <div className="dialog-buttons">
        <Button
          variant="default"
          disabled={nothing}
          aria-label={undoes}
          onClick={() => {
            begin();
            save.reset();
          }}
        >
          Undo
        </Button>
        <RoleButton
          takes="administrator"
          type="submit"
          disabled={change === null || nothing}
          loading={save.isPending}
        >
          {saves}
        </RoleButton>
      </div>
    </form>
  );
}
