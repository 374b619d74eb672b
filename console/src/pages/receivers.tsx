import { Button, NativeSelect, PasswordInput, Textarea, TextInput } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ask, client } from '../api/client';
import { receiversQuery, useChange } from '../api/queries';
import type { MailSecurity, Receiver, ReceiverPut } from '../api/types';
import { Empty, Panel, Shown, Standing } from '../parts/basic';
import { Dialog, Tick, useDialog } from '../parts/dialog';
import { Outdated, unchanged } from '../parts/outdated';
import { say } from '../parts/say';
import { type Column, DataTable } from '../parts/table';
import { plural } from '../text/units';

const PORTS: Record<MailSecurity, string> = { starttls: '587', tls: '465', none: '25' };

const SECURITIES = [
  { value: 'starttls', label: 'STARTTLS (port 587)' },
  { value: 'tls', label: 'TLS from the first byte (port 465)' },
  { value: 'none', label: 'none: nobody can log in' },
];

function where(one: Receiver): string {
  return one.mail
    ? `${one.mail.to.join(', ')} by ${one.mail.server}:${one.mail.port}`
    : (one.webhook?.url ?? '');
}

function State({ one }: { one: Receiver }) {
  const trouble = one.undelivered;
  if (trouble) {
    const word = trouble.given_up ? 'given up' : plural(trouble.attempts, 'try', 'tries');
    return <Standing word={word} tone="bad" tip={trouble.why} />;
  }
  return one.waiting > 0 ? (
    <Standing word="about to be told" tone="calm" tip={`${one.waiting} changes wait`} />
  ) : (
    <Standing word="told of everything" tone="good" tip="Nothing waits to be told" />
  );
}

type Order = 'put' | 'remove';

function columns(order: (kind: Order | 'test', one: Receiver) => void): Column<Receiver>[] {
  return [
    { id: 'name', head: 'Receiver', by: (one) => one.name, cell: (one) => one.name },
    { id: 'where', head: 'Where', by: where, cell: where },
    {
      id: 'of',
      head: 'Of',
      by: (one) => (one.critical_only ? 'critical' : 'all'),
      cell: (one) => (one.critical_only ? 'critical alarms' : 'all alarms'),
    },
    { id: 'state', head: 'State', by: (one) => one.waiting, cell: (one) => <State one={one} /> },
    {
      id: 'orders',
      head: 'Change',
      by: () => 0,
      cell: (one) => (
        <span className="row-orders">
          {(['test', 'put', 'remove'] as const).map((kind) => (
            <Button
              key={kind}
              variant="default"
              size="compact-xs"
              aria-label={`${WORDS[kind]} ${one.name}`}
              onClick={() => order(kind, one)}
            >
              {WORDS[kind]}
            </Button>
          ))}
        </span>
      ),
    },
  ];
}

const WORDS = { test: 'Test', put: 'Change', remove: 'Remove' };

/** Who is told of alarms. */
export function Receivers() {
  const query = useQuery(receiversQuery);
  const [dialog, open, close] = useDialog<Order>();
  const [chosen, setChosen] = useState<Receiver | null>(null);
  const [testing, setTesting] = useState<Receiver | null>(null);
  /** As it is on record now: somebody else may have changed it while a dialog was open. */
  const latest = (one: Receiver | null) =>
    query.data?.receivers.find((other) => other.name === one?.name);
  const add = (
    <Button
      variant="default"
      leftSection={<IconPlus size={15} />}
      onClick={() => {
        setChosen(null);
        open('put');
      }}
    >
      Add receiver
    </Button>
  );
  return (
    <Panel title="Who is told" aside={add} flush>
      <Shown query={query} what="who is told">
        {({ receivers }) => (
          <DataTable
            label="Receivers of alarms"
            rows={receivers}
            columns={columns((kind, one) => {
              if (kind === 'test') {
                setTesting(one);
                return;
              }
              setChosen(one);
              open(kind);
            })}
            rowId={(one) => one.name}
            sortBy="name"
            empty={
              <Empty title="Nobody is told">
                Have alarms sent by mail, or to a program by an HTTP request.
              </Empty>
            }
          />
        )}
      </Shown>
      {dialog === 'put' ? (
        <PutDialog present={chosen} latest={latest(chosen)} onClose={close} />
      ) : null}
      {dialog === 'remove' && chosen ? (
        <RemoveDialog present={chosen} latest={latest(chosen)} onClose={close} />
      ) : null}
      {testing ? <TestDialog receiver={testing} onClose={() => setTesting(null)} /> : null}
    </Panel>
  );
}

function TestDialog({ receiver, onClose }: { receiver: Receiver; onClose: () => void }) {
  const path = { name: receiver.name };
  const test = useChange(() =>
    ask(client.POST('/api/v1/receivers/{name}/test', { params: { path } })),
  );
  return (
    <Dialog
      title="Test a receiver"
      does="Send a test"
      busy={test.isPending}
      error={test.error}
      onClose={onClose}
      onDo={() =>
        test.mutate(undefined, {
          onSuccess: () => {
            say(`${receiver.name} has taken it`);
            onClose();
          },
        })
      }
    >
      <p>An alarm that is none is sent to {where(receiver)}, now.</p>
    </Dialog>
  );
}

function RemoveDialog({
  present,
  latest,
  onClose,
}: {
  present: Receiver;
  /** The same as it is on record now. */
  latest: Receiver | undefined;
  onClose: () => void;
}) {
  /** What is removed is what was shown, and not what somebody else makes of it meanwhile. */
  const [receiver, setReceiver] = useState(present);
  const path = { name: receiver.name };
  const remove = useChange(() =>
    ask(
      client.DELETE('/api/v1/receivers/{name}', { params: { path, header: unchanged(receiver) } }),
    ),
  );
  return (
    <Dialog
      title="Remove a receiver"
      does="Remove"
      danger
      busy={remove.isPending}
      error={remove.error}
      onClose={onClose}
      onDo={() => remove.mutate(undefined, { onSuccess: onClose })}
    >
      <Outdated order={remove} shown={receiver} latest={latest} onShow={setReceiver} />
      <p>
        <strong>{receiver.name}</strong> ({where(receiver)}) is told of alarms no more.
      </p>
    </Dialog>
  );
}

type Typed = {
  name: string;
  kind: 'mail' | 'webhook';
  critical: boolean;
  authority: string;
  server: string;
  port: string;
  security: MailSecurity;
  user: string;
  password: string;
  from: string;
  to: string;
  url: string;
  secret: string;
};

function typed(present: Receiver | null): Typed {
  const mail = present?.mail;
  return {
    name: present?.name ?? '',
    kind: present?.webhook ? 'webhook' : 'mail',
    critical: present?.critical_only ?? false,
    authority: '',
    server: mail?.server ?? '',
    port: String(mail?.port ?? PORTS.starttls),
    security: mail?.security ?? 'starttls',
    user: mail?.user ?? '',
    password: '',
    from: mail?.from ?? '',
    to: mail?.to.join(', ') ?? '',
    url: present?.webhook?.url ?? '',
    secret: '',
  };
}

/** What was typed, as it is set. */
export function receiverOf(it: Typed): ReceiverPut {
  const some = (text: string) => (text.trim() === '' ? undefined : text.trim());
  const common = { critical_only: it.critical, authority: some(it.authority) };
  if (it.kind === 'webhook') {
    return { ...common, webhook: { url: it.url.trim(), secret: some(it.secret) } };
  }
  return {
    ...common,
    mail: {
      server: it.server.trim(),
      port: Number(it.port),
      security: it.security,
      user: some(it.user),
      password: it.password === '' ? undefined : it.password,
      from: it.from.trim(),
      to: it.to.split(/[\s,;]+/).filter((one) => one !== ''),
    },
  };
}

export function PutDialog({
  present: opened,
  latest,
  onClose,
}: {
  present: Receiver | null;
  /** The same as it is on record now. */
  latest: Receiver | undefined;
  onClose: () => void;
}) {
  const [present, setPresent] = useState(opened);
  const [it, setIt] = useState(() => typed(present));
  const path = { name: it.name.trim() };
  const put = useChange((body: ReceiverPut) =>
    ask(
      client.PUT('/api/v1/receivers/{name}', {
        params: { path, header: unchanged(present) },
        body,
      }),
    ),
  );
  const set = (part: Partial<Typed>) => setIt({ ...it, ...part });
  const text = (key: keyof Typed, label: string, more: object = {}) => (
    <TextInput
      label={label}
      autoComplete="off"
      value={it[key] as string}
      onChange={(event) => set({ [key]: event.currentTarget.value })}
      {...more}
    />
  );
  const full =
    it.kind === 'mail'
      ? it.server && it.from && it.to && /^\d{1,5}$/.test(it.port)
      : it.url.startsWith('http');
  return (
    <Dialog
      title={present ? `Change ${present.name}` : 'Add a receiver'}
      does={present ? 'Save' : 'Add receiver'}
      ready={path.name !== '' && Boolean(full)}
      busy={put.isPending}
      error={put.error}
      onClose={onClose}
      onDo={() =>
        put.mutate(receiverOf(it), {
          onSuccess: () => {
            say(`${path.name} is told of alarms; send it a test`);
            onClose();
          },
        })
      }
    >
      <Outdated
        order={put}
        shown={present}
        latest={latest}
        onShow={(now) => {
          setPresent(now);
          setIt(typed(now));
        }}
      />
      {present ? null : text('name', 'Name', { 'data-autofocus': true, placeholder: 'ops' })}
      {present ? null : (
        <NativeSelect
          label="By"
          data={[
            { value: 'mail', label: 'mail' },
            { value: 'webhook', label: 'an HTTP request (webhook)' },
          ]}
          value={it.kind}
          onChange={(event) => set({ kind: event.currentTarget.value as Typed['kind'] })}
        />
      )}
      {it.kind === 'mail' ? (
        <>
          {text('server', 'Mail relay', { placeholder: 'smtp.example.org' })}
          <NativeSelect
            label="Encryption"
            data={SECURITIES}
            value={it.security}
            onChange={(event) => {
              const security = event.currentTarget.value as MailSecurity;
              set({ security, port: PORTS[security] });
            }}
          />
          {text('port', 'Port')}
          {text('user', 'User', { description: 'if the relay wants a login' })}
          <PasswordInput
            label="Password"
            description={
              present?.mail?.user ? 'the one on record stays if this is empty' : undefined
            }
            autoComplete="new-password"
            value={it.password}
            onChange={(event) => set({ password: event.currentTarget.value })}
          />
          {text('from', 'Sender', { placeholder: 'holdfast@example.org' })}
          {text('to', 'To', {
            placeholder: 'ops@example.org',
            description: 'addresses, with commas between them',
          })}
        </>
      ) : (
        <>
          {text('url', 'Address', { placeholder: 'https://hooks.example.org/holdfast' })}
          <PasswordInput
            label="Secret"
            description={
              present?.webhook?.is_signed
                ? 'the one on record stays if this is empty, as long as the address does'
                : 'requests are signed with it, if there is one'
            }
            autoComplete="new-password"
            value={it.secret}
            onChange={(event) => set({ secret: event.currentTarget.value })}
          />
        </>
      )}
      <Textarea
        label="Authority (PEM)"
        description={
          present?.has_authority
            ? 'one is on record, and stays if this is empty'
            : "trusted beside the system's, if the receiver has a certificate of its own authority"
        }
        rows={2}
        value={it.authority}
        onChange={(event) => set({ authority: event.currentTarget.value })}
      />
      <Tick
        label="Critical alarms only"
        value={it.critical}
        onChange={(critical) => set({ critical })}
      />
    </Dialog>
  );
}
