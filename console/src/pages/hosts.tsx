import { PasswordInput, TextInput } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ask, client } from '../api/client';
import { initiatorsQuery, useChange } from '../api/queries';
import type { Initiator, InitiatorPut } from '../api/types';
import { Empty, PageHead, Shown } from '../parts/basic';
import { Dialog, Tick, TypedName, useDialog } from '../parts/dialog';
import { Outdated, unchanged } from '../parts/outdated';
import { RoleButton } from '../parts/role';
import { say } from '../parts/say';
import { type Column, DataTable } from '../parts/table';
import { address, Link, useTitle } from '../router';
import { initiatorFault } from './wizard-rules';

type Change = (kind: 'put' | 'remove', initiator: Initiator) => void;

function columns(change: Change): Column<Initiator>[] {
  return [
    {
      id: 'name',
      head: 'Initiator',
      tip: 'Its iSCSI name',
      by: (one) => one.name,
      cell: (one) => (
        <Link to={address('hosts', one.name)} className="mono" title="Its sessions and paths">
          {one.name}
        </Link>
      ),
    },
    {
      id: 'chap',
      head: 'Proves itself',
      tip: 'The CHAP name under which it proves who it is; without one its iSCSI name is believed',
      by: (one) => one.chap_name ?? '',
      cell: (one) =>
        one.chap_name ? (
          `CHAP, as ${one.chap_name}`
        ) : (
          <span className="dim">its name is believed</span>
        ),
    },
    {
      id: 'mutual',
      head: 'Target proves itself',
      tip: 'The CHAP name under which targets prove to it who they are',
      spare: true,
      by: (one) => one.mutual_name ?? '',
      cell: (one) =>
        one.mutual_name ? `CHAP, as ${one.mutual_name}` : <span className="dim">no</span>,
    },
    {
      id: 'volumes',
      head: 'Volumes',
      tip: 'Volumes that list it; those that are for everybody are not among them',
      by: (one) => one.volumes.length,
      cell: (one) =>
        one.volumes.length === 0 ? (
          <span className="dim">none lists it</span>
        ) : (
          one.volumes.map((volume, index) => (
            <span key={volume}>
              {index > 0 ? ', ' : ''}
              <Link to={address('volumes', volume, 'access')}>{volume}</Link>
            </span>
          ))
        ),
    },
    {
      id: 'orders',
      head: 'Change',
      by: () => 0,
      cell: (one) => (
        <span className="row-orders">
          <RoleButton
            takes="operator"
            variant="default"
            size="compact-xs"
            aria-label={`Change CHAP of ${one.name}`}
            onClick={() => change('put', one)}
          >
            CHAP
          </RoleButton>
          <RoleButton
            takes="operator"
            variant="default"
            size="compact-xs"
            unless={one.volumes.length > 0 ? 'Volumes list it: take them from it first.' : null}
            aria-label={`Forget ${one.name}`}
            onClick={() => change('remove', one)}
          >
            Forget
          </RoleButton>
        </span>
      ),
    },
  ];
}

export function HostsPage() {
  useTitle('Hosts');
  const query = useQuery(initiatorsQuery);
  const [dialog, open, close] = useDialog<'put' | 'remove'>();
  const [chosen, setChosen] = useState<Initiator | null>(null);
  const all = query.data?.initiators ?? [];
  const add = (
    <RoleButton
      takes="operator"
      leftSection={<IconPlus size={15} />}
      onClick={() => {
        setChosen(null);
        open('put');
      }}
    >
      Add host
    </RoleButton>
  );
  return (
    <>
      <PageHead title="Hosts" actions={add} />
      <p className="page-lead">
        Initiators on record: those that prove who they are, and those that volumes are for. A host
        need not be here to use a volume that is for everybody.
      </p>
      <Shown query={query} what="the initiators">
        {({ initiators }) => (
          <div className="panel">
            <DataTable
              label="Initiators"
              rows={initiators}
              columns={columns((kind, initiator) => {
                setChosen(initiator);
                open(kind);
              })}
              rowId={(one) => one.name}
              sortBy="name"
              search={initiators.length > 8 ? 'initiators' : undefined}
              empty={
                <Empty title="No host is on record" action={add}>
                  Add one to have it prove who it is (CHAP), or to make volumes for it alone.
                </Empty>
              }
            />
          </div>
        )}
      </Shown>
      {dialog === 'put' ? <PutDialog opened={chosen} all={all} onClose={close} /> : null}
      {dialog === 'remove' && chosen ? (
        <RemoveDialog opened={chosen} all={all} onClose={close} />
      ) : null}
    </>
  );
}

const SECRET = /^[ -~]{12,255}$/;
const SECRET_FAULT = '12 to 255 letters';

type Props<T> = {
  opened: T;
  /** As they are on record now. */
  all: Initiator[];
  onClose: () => void;
};

function PutDialog({ opened, all, onClose }: Props<Initiator | null>) {
  /** What is changed is what was shown, and not what somebody else makes of it meanwhile. */
  const [initiator, setInitiator] = useState(opened);
  const [name, setName] = useState(initiator?.name ?? '');
  const [proves, setProves] = useState(initiator?.chap_name != null);
  const [chap, setChap] = useState({ name: initiator?.chap_name ?? '', secret: '' });
  const [mutually, setMutually] = useState(initiator?.mutual_name != null);
  const [mutual, setMutual] = useState({ name: initiator?.mutual_name ?? '', secret: '' });
  const show = (now: Initiator) => {
    setInitiator(now);
    setProves(now.chap_name != null);
    setChap({ name: now.chap_name ?? '', secret: '' });
    setMutually(now.mutual_name != null);
    setMutual({ name: now.mutual_name ?? '', secret: '' });
  };
  const put = useChange((body: InitiatorPut) =>
    ask(
      client.PUT('/api/v1/initiators/{name}', {
        params: { path: { name: name.trim() }, header: unchanged(initiator) },
        // One that is added replaces none.
        headers: initiator ? {} : { 'If-None-Match': '*' },
        body,
      }),
    ),
  );
  const good = (account: typeof chap) => account.name !== '' && SECRET.test(account.secret);
  const nameFault = initiatorFault(name.trim());
  const ready = nameFault === undefined && (!proves || (good(chap) && (!mutually || good(mutual))));
  return (
    <Dialog
      title={initiator ? 'Change how a host proves itself' : 'Add a host'}
      does={initiator ? 'Change' : 'Add host'}
      ready={ready}
      busy={put.isPending}
      error={put.error}
      onClose={onClose}
      onDo={() =>
        put.mutate(
          { ...(proves ? { chap } : {}), ...(proves && mutually ? { mutual } : {}) },
          {
            onSuccess: () => {
              say(`${name.trim()} is on record`);
              onClose();
            },
          },
        )
      }
    >
      <Outdated
        order={put}
        shown={initiator}
        latest={all.find((one) => one.name === name.trim())}
        onShow={show}
      />
      <TextInput
        data-autofocus
        label="Initiator"
        description="Its iSCSI name. On Linux it is in /etc/iscsi/initiatorname.iscsi."
        placeholder="iqn.1993-08.org.debian:01:2d4f1a"
        disabled={initiator !== null}
        value={name}
        error={name === '' ? undefined : nameFault}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <Tick label="It proves who it is (CHAP)" value={proves} onChange={setProves} />
      {proves ? <Account what="its" account={chap} change={setChap} /> : null}
      {proves ? (
        <Tick
          label="Targets prove to it who they are, too"
          value={mutually}
          onChange={setMutually}
        />
      ) : null}
      {proves && mutually ? (
        <Account what="the target's" account={mutual} change={setMutual} />
      ) : null}
      {initiator?.chap_name ? (
        <p className="note">
          Secrets are not told again: what is on record is replaced as a whole.
        </p>
      ) : null}
    </Dialog>
  );
}

function Account({
  what,
  account,
  change,
}: {
  what: string;
  account: { name: string; secret: string };
  change: (to: { name: string; secret: string }) => void;
}) {
  return (
    <div className="fields fields-inner">
      <TextInput
        label={`CHAP name (${what})`}
        autoComplete="off"
        value={account.name}
        onChange={(event) => change({ ...account, name: event.currentTarget.value })}
      />
      <PasswordInput
        label={`Secret (${what})`}
        description="12 to 255 letters"
        autoComplete="new-password"
        value={account.secret}
        error={account.secret !== '' && !SECRET.test(account.secret) ? SECRET_FAULT : undefined}
        onChange={(event) => change({ ...account, secret: event.currentTarget.value })}
      />
    </div>
  );
}

function RemoveDialog({ opened, all, onClose }: Props<Initiator>) {
  const [initiator, setInitiator] = useState(opened);
  const { name } = initiator;
  const [typed, setTyped] = useState('');
  const remove = useChange(() =>
    ask(
      client.DELETE('/api/v1/initiators/{name}', {
        params: { path: { name }, header: unchanged(initiator) },
      }),
    ),
  );
  return (
    <Dialog
      title="Forget a host"
      does="Forget"
      danger
      ready={typed === name}
      busy={remove.isPending}
      error={remove.error}
      onClose={onClose}
      onDo={() =>
        remove.mutate(undefined, {
          onSuccess: () => {
            say(`${name} is forgotten`);
            onClose();
          },
        })
      }
    >
      <Outdated
        order={remove}
        shown={initiator}
        latest={all.find((one) => one.name === name)}
        onShow={setInitiator}
      />
      <p>
        {initiator.chap_name
          ? `It proves who it is by CHAP, as ${initiator.chap_name}.`
          : 'Its name is believed.'}{' '}
        What it proves itself by goes with it. Volumes that are for everybody stay within its reach.
      </p>
      <TypedName name={name} value={typed} onChange={setTyped} />
    </Dialog>
  );
}
