import { ActionIcon, PasswordInput } from '@mantine/core';
import { IconKey, IconLogout } from '@tabler/icons-react';
import { useState } from 'react';
import { ask, client } from '../api/client';
import { queryClient, useChange } from '../api/queries';
import type { Identity } from '../api/types';
import { Dialog, useDialog } from './dialog';
import { say } from './say';

/** Who has logged in, and what that one may do about it. Nothing where everybody may everything. */
export function Account({ who }: { who: Identity }) {
  const [dialog, open, close] = useDialog<'password'>();
  const logout = useChange(() => ask(client.DELETE('/api/v1/session')));
  if (who.kind !== 'user') return null;
  return (
    <div className="account">
      <span
        className="account-name"
        title={`${who.name}, ${who.role}${who.issuer ? `, known by ${who.issuer}` : ''}`}
      >
        {who.name}
        <span className="dim">{who.role}</span>
      </span>
      {who.issuer ? null : (
        <ActionIcon
          variant="subtle"
          color="gray"
          aria-label="Change password"
          title="Change password"
          onClick={() => open('password')}
        >
          <IconKey size={16} />
        </ActionIcon>
      )}
      <ActionIcon
        variant="subtle"
        color="gray"
        aria-label="Log out"
        title="Log out"
        loading={logout.isPending}
        onClick={() => logout.mutate(undefined, { onSuccess: () => queryClient.clear() })}
      >
        <IconLogout size={16} />
      </ActionIcon>
      {dialog === 'password' ? <PasswordDialog onClose={close} /> : null}
    </div>
  );
}

/** Letters of a password at least. */
const PASSWORD_MIN = 12;

/** What is wrong with a new password that was typed so far; nothing before anything was. */
export function passwordFault(password: string): string | undefined {
  if (password === '' || [...password].length >= PASSWORD_MIN) return undefined;
  return `${PASSWORD_MIN} letters at least`;
}

export function NewPassword({
  label,
  value,
  onChange,
}: {
  label: string;
  value: string;
  onChange: (to: string) => void;
}) {
  return (
    <PasswordInput
      label={label}
      description="12 letters at least; a generator of passwords makes good ones"
      autoComplete="new-password"
      value={value}
      error={passwordFault(value)}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}

function PasswordDialog({ onClose }: { onClose: () => void }) {
  const [current, setCurrent] = useState('');
  const [next, setNext] = useState('');
  const change = useChange((body: { current: string; new: string }) =>
    ask(client.PUT('/api/v1/session/password', { body })),
  );
  return (
    <Dialog
      title="Change your password"
      does="Change"
      ready={current !== '' && next !== '' && passwordFault(next) === undefined}
      busy={change.isPending}
      error={change.error}
      onClose={onClose}
      onDo={() =>
        change.mutate(
          { current, new: next },
          {
            onSuccess: () => {
              say('Your password is the new one; your other logins have ended');
              onClose();
            },
          },
        )
      }
    >
      <PasswordInput
        data-autofocus
        label="Present password"
        autoComplete="current-password"
        value={current}
        onChange={(event) => setCurrent(event.currentTarget.value)}
      />
      <NewPassword label="New password" value={next} onChange={setNext} />
    </Dialog>
  );
}
