import { Button, TextInput } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ask, client } from '../api/client';
import { useCreation } from '../api/creation';
import { sessionQuery, useChange, usersQuery } from '../api/queries';
import type { Role, User, UserCreate } from '../api/types';
import { NewPassword, passwordFault } from '../parts/account';
import { Empty, PageHead, Shown, Standing } from '../parts/basic';
import { Dialog, Tick, useDialog } from '../parts/dialog';
import { Outdated, unchanged } from '../parts/outdated';
import { RemovalDialog } from '../parts/removal';
import { RoleButton, RolePage } from '../parts/role';
import { RoleSelect } from '../parts/role-select';
import { say } from '../parts/say';
import { type Column, DataTable } from '../parts/table';
import { useTitle } from '../router';
import { moment } from '../text/units';
import { Tokens } from './tokens';

const NAME = /^[a-z0-9][a-z0-9._@-]{0,63}$/;

function columns(order: (kind: 'change' | 'remove', user: User) => void): Column<User>[] {
  return [
    { id: 'name', head: 'User', by: (one) => one.name, cell: (one) => one.name },
    {
      id: 'role',
      head: 'Role',
      tip: 'A viewer looks; an operator runs volumes, hosts, devices and maintenance as well; an administrator also changes settings, nodes, and who may do what',
      by: (one) => one.role,
      cell: (one) => one.role,
    },
    {
      id: 'state',
      head: 'State',
      by: (one) => (one.issuer ? 'external' : one.disabled ? 'disabled' : 'enabled'),
      cell: (one) =>
        one.issuer ? (
          <Standing
            word="external"
            tone="good"
            tip={`${one.issuer} says who it is (${one.subject}), and what that one may; listed while logins hold`}
          />
        ) : one.disabled ? (
          <Standing word="disabled" tone="warn" tip="Nobody can log in as this user" />
        ) : (
          <Standing word="enabled" tone="good" tip="Can log in" />
        ),
    },
    {
      id: 'sessions',
      head: 'Logins',
      tip: 'Logins that hold, at whatever browser',
      numeric: true,
      by: (one) => one.sessions,
      cell: (one) => one.sessions,
    },
    {
      id: 'since',
      head: 'Password since',
      tip: 'When the password was last changed',
      spare: true,
      by: (one) => one.password_changed_ms,
      cell: (one) => (one.issuer ? '' : moment(one.password_changed_ms)),
    },
    {
      id: 'orders',
      head: 'Change',
      by: () => 0,
      cell: (one) => (
        <span className="row-orders">
          <RoleButton
            takes="administrator"
            variant="default"
            size="compact-xs"
            aria-label={`Change ${one.name}`}
            unless={
              one.issuer ? `${one.issuer} says what this user may: it is changed there.` : null
            }
            onClick={() => order('change', one)}
          >
            Change
          </RoleButton>
          <Button
            variant="default"
            size="compact-xs"
            aria-label={`Remove ${one.name}`}
            onClick={() => order('remove', one)}
          >
            Remove
          </Button>
        </span>
      ),
    },
  ];
}

/** Who may log in, and what programs show. */
export function UsersPage() {
  useTitle('Users');
  return (
    <RolePage takes="administrator" title="Users">
      <Users />
    </RolePage>
  );
}

function Users() {
  const who = useQuery(sessionQuery).data;
  const query = useQuery(usersQuery);
  const [dialog, open, close] = useDialog<'create' | 'change' | 'remove'>();
  const [chosen, setChosen] = useState<User | null>(null);
  /** As that one is on record now: somebody else may have changed it while a dialog was open. */
  const latest = query.data?.users.find((one) => one.name === chosen?.name);
  const add = (
    <RoleButton
      takes="administrator"
      leftSection={<IconPlus size={15} />}
      onClick={() => open('create')}
    >
      Add user
    </RoleButton>
  );
  if (who?.kind === 'anybody') {
    return (
      <>
        <PageHead title="Users" />
        <Empty title="Security is off">
          There are no users and no tokens: whoever reaches a node may do everything. The book tells
          how security is turned on, under "Security".
        </Empty>
      </>
    );
  }
  return (
    <>
      <PageHead title="Users" actions={add} />
      <p className="page-lead">People who log in. A change is in effect at once.</p>
      <Shown query={query} what="the users">
        {({ users }) => (
          <div className="panel">
            <DataTable
              label="Users"
              rows={users}
              columns={columns((kind, user) => {
                setChosen(user);
                open(kind);
              })}
              rowId={(one) => one.name}
              sortBy="name"
              search={users.length > 8 ? 'users' : undefined}
              empty={<Empty title="There is no user" action={add} />}
            />
          </div>
        )}
      </Shown>
      <Tokens />
      {dialog === 'create' ? <CreateDialog onClose={close} /> : null}
      {dialog === 'change' && chosen ? (
        <ChangeDialog present={chosen} latest={latest} onClose={close} />
      ) : null}
      {dialog === 'remove' && chosen ? (
        <RemoveDialog present={chosen} latest={latest} onClose={close} />
      ) : null}
    </>
  );
}

function CreateDialog({ onClose }: { onClose: () => void }) {
  const first: UserCreate = { name: '', role: 'viewer', password: '' };
  const { draft, change, create } = useCreation(first, (body, params) =>
    ask(client.POST('/api/v1/users', { params, body })),
  );
  const { name, role, password } = draft;
  const fits = NAME.test(name);
  return (
    <Dialog
      title="Add a user"
      does="Add user"
      ready={fits && password !== '' && passwordFault(password) === undefined}
      busy={create.isPending}
      error={create.error}
      onClose={onClose}
      onDo={() =>
        create.mutate(undefined, {
          onSuccess: () => {
            say(`${name} can log in`);
            onClose();
          },
        })
      }
    >
      <TextInput
        data-autofocus
        label="Name"
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
        value={name}
        error={name === '' || fits ? undefined : 'small letters, digits, . _ - @'}
        onChange={(event) => change({ name: event.currentTarget.value })}
      />
      <RoleSelect value={role} onChange={(role) => change({ role })} />
      <NewPassword
        label="Password"
        value={password}
        onChange={(password) => change({ password })}
      />
    </Dialog>
  );
}

type Of = {
  present: User;
  /** The same as it is on record now. */
  latest: User | undefined;
  onClose: () => void;
};

function ChangeDialog({ present, latest, onClose }: Of) {
  /** What is changed is what was shown, and not what somebody else makes of it meanwhile. */
  const [user, setUser] = useState(present);
  const [role, setRole] = useState<Role>(user.role);
  const [disabled, setDisabled] = useState(user.disabled);
  const [password, setPassword] = useState('');
  const path = { name: user.name };
  const body = {
    ...(role === user.role ? {} : { role }),
    ...(disabled === user.disabled ? {} : { disabled }),
    ...(password === '' ? {} : { password }),
  };
  const change = useChange(() =>
    ask(client.PATCH('/api/v1/users/{name}', { params: { path, header: unchanged(user) }, body })),
  );
  return (
    <Dialog
      title={`Change ${user.name}`}
      does="Change"
      ready={Object.keys(body).length > 0 && passwordFault(password) === undefined}
      busy={change.isPending}
      error={change.error}
      onClose={onClose}
      onDo={() =>
        change.mutate(undefined, {
          onSuccess: () => {
            say(`${user.name} is changed`);
            onClose();
          },
        })
      }
    >
      <Outdated
        order={change}
        shown={user}
        latest={latest}
        onShow={(now) => {
          setUser(now);
          setRole(now.role);
          setDisabled(now.disabled);
        }}
      />
      <RoleSelect value={role} onChange={setRole} />
      <Tick label="Nobody can log in as this user" value={disabled} onChange={setDisabled} />
      <NewPassword
        label="New password, if it is to be another"
        value={password}
        onChange={setPassword}
      />
      <p className="note">With another password, or when nobody can log in, present logins end.</p>
    </Dialog>
  );
}

function RemoveDialog({ present, latest, onClose }: Of) {
  const { name } = present;
  return (
    <RemovalDialog
      title="Remove a user"
      does="Remove"
      present={present}
      latest={latest}
      remove={(shown) =>
        ask(
          client.DELETE('/api/v1/users/{name}', {
            params: { path: { name }, header: unchanged(shown) },
          }),
        )
      }
      done={`${name} is removed`}
      onDone={onClose}
      onClose={onClose}
    >
      {({ role, disabled }) => (
        <p>
          <strong>{name}</strong> ({role}
          {disabled ? ', disabled' : ''}): logins of this user end, and so do the tokens that this
          user made.
        </p>
      )}
    </RemovalDialog>
  );
}
