import { Button, NativeSelect, TextInput } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ask, client } from '../api/client';
import { useCreation } from '../api/creation';
import { tokensQuery, useChange } from '../api/queries';
import type { Scope, Token, TokenCreate } from '../api/types';
import { Commands, Empty, Panel, Shown, Standing } from '../parts/basic';
import { Dialog, useDialog } from '../parts/dialog';
import { RoleButton } from '../parts/role';
import { RoleSelect } from '../parts/role-select';
import { say } from '../parts/say';
import { type Column, DataTable } from '../parts/table';
import { expiry } from '../text/tokens';

const DAY_S = 86_400;

const SCOPES: { value: Scope; label: string }[] = [
  { value: 'everything', label: 'Everything that the role may' },
  { value: 'volumes', label: 'Volumes and hosts only' },
  { value: 'metrics', label: 'Metrics only, as for Prometheus' },
];

const SPANS = [
  { value: String(DAY_S), label: 'a day' },
  { value: String(30 * DAY_S), label: '30 days' },
  { value: String(90 * DAY_S), label: '90 days' },
  { value: String(365 * DAY_S), label: 'a year' },
];

function columns(revoke: (token: Token) => void): Column<Token>[] {
  return [
    {
      id: 'name',
      head: 'Token',
      tip: 'What it is for',
      by: (one) => one.name,
      cell: (one) => one.name,
    },
    {
      id: 'id',
      head: 'Begins with',
      tip: 'What the token itself begins with, to know it where it is found',
      spare: true,
      by: (one) => one.id,
      cell: (one) => <span className="mono">hft_{one.id}</span>,
    },
    { id: 'role', head: 'Role', by: (one) => one.role, cell: (one) => one.role },
    { id: 'scope', head: 'For', by: (one) => one.scope, cell: (one) => one.scope },
    {
      id: 'by',
      head: 'Made by',
      spare: true,
      by: (one) => one.created_by,
      cell: (one) => one.created_by,
    },
    {
      id: 'until',
      head: 'Until',
      tip: 'Until when it holds; one that ends within 14 days is marked',
      by: (one) => one.expires_ms,
      cell: (one) => <Standing {...expiry(one)} />,
    },
    {
      id: 'orders',
      head: 'Change',
      by: () => 0,
      cell: (one) => (
        <Button
          variant="default"
          size="compact-xs"
          aria-label={`Revoke ${one.name}`}
          onClick={() => revoke(one)}
        >
          Revoke
        </Button>
      ),
    },
  ];
}

/** What programs show. */
export function Tokens() {
  const query = useQuery(tokensQuery);
  const [dialog, open, close] = useDialog<'create' | 'revoke'>();
  const [chosen, setChosen] = useState<Token | null>(null);
  const make = (
    <RoleButton
      takes="administrator"
      variant="default"
      leftSection={<IconPlus size={15} />}
      onClick={() => open('create')}
    >
      Make token
    </RoleButton>
  );
  return (
    <Panel title="Tokens of programs" aside={make} flush>
      <Shown query={query} what="the tokens">
        {({ tokens }) => (
          <DataTable
            label="Tokens"
            rows={tokens}
            columns={columns((token) => {
              setChosen(token);
              open('revoke');
            })}
            rowId={(one) => one.id}
            sortBy="name"
            search={tokens.length > 8 ? 'tokens' : undefined}
            empty={
              <Empty title="There is no token">
                The command line, Prometheus, and programs of your own show one to be let in.
              </Empty>
            }
          />
        )}
      </Shown>
      {dialog === 'create' ? <CreateDialog onClose={close} /> : null}
      {dialog === 'revoke' && chosen ? <RevokeDialog token={chosen} onClose={close} /> : null}
    </Panel>
  );
}

const EMPTY: TokenCreate = {
  name: '',
  role: 'viewer',
  scope: 'everything',
  lifetime_seconds: 90 * DAY_S,
};

function CreateDialog({ onClose }: { onClose: () => void }) {
  const { draft, change, create } = useCreation(EMPTY, ({ name, ...rest }, params) =>
    ask(client.POST('/api/v1/tokens', { params, body: { ...rest, name: name.trim() } })),
  );
  const { name, role, scope, lifetime_seconds: seconds } = draft;
  const made = create.data;
  return (
    <Dialog
      title="Make a token"
      does={made ? 'I have it' : 'Make token'}
      ready={made !== undefined || name.trim() !== ''}
      busy={create.isPending}
      error={create.error}
      onClose={onClose}
      onDo={() => (made ? onClose() : create.mutate())}
    >
      {made ? (
        <>
          <p>This is the token. It is not told again.</p>
          <Commands label={`The token ${made.token.name}`} text={made.secret} />
        </>
      ) : (
        <>
          <TextInput
            data-autofocus
            label="What it is for"
            placeholder="Prometheus"
            autoComplete="off"
            maxLength={64}
            value={name}
            onChange={(event) => change({ name: event.currentTarget.value })}
          />
          <RoleSelect value={role} onChange={(role) => change({ role })} />
          <NativeSelect
            label="For"
            data={SCOPES}
            value={scope}
            onChange={(event) => change({ scope: event.currentTarget.value as Scope })}
          />
          <NativeSelect
            label="It holds for"
            data={SPANS}
            value={String(seconds)}
            onChange={(event) => change({ lifetime_seconds: Number(event.currentTarget.value) })}
          />
        </>
      )}
    </Dialog>
  );
}

function RevokeDialog({ token, onClose }: { token: Token; onClose: () => void }) {
  const path = { id: token.id };
  const revoke = useChange(() => ask(client.DELETE('/api/v1/tokens/{id}', { params: { path } })));
  return (
    <Dialog
      title="Revoke a token"
      does="Revoke"
      danger
      busy={revoke.isPending}
      error={revoke.error}
      onClose={onClose}
      onDo={() =>
        revoke.mutate(undefined, {
          onSuccess: () => {
            say(`${token.name} holds no more`);
            onClose();
          },
        })
      }
    >
      <p>
        Whatever shows <strong>{token.name}</strong> is let in no more, within two seconds.
      </p>
    </Dialog>
  );
}
