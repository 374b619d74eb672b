import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { initiatorsQuery, sessionsQuery } from '../api/queries';
import type { Initiator } from '../api/types';
import { Empty, PageHead, Panel, Shown, Silent, Standing } from '../parts/basic';
import { useDialog } from '../parts/dialog';
import { RoleButton } from '../parts/role';
import { type Column, DataTable } from '../parts/table';
import { address, Link, useTitle } from '../router';
import { type Guest, guests } from '../text/paths';
import { moment, plural } from '../text/units';
import { PutDialog, RemoveDialog } from './host-changes';

type Change = (kind: 'put' | 'remove', initiator: Initiator) => void;

function nameColumn(tip: string): Column<{ name: string }> {
  return {
    id: 'name',
    head: 'Initiator',
    tip,
    by: (one) => one.name,
    cell: (one) => (
      <Link to={address('hosts', one.name)} className="mono" title="Its sessions and paths">
        {one.name}
      </Link>
    ),
  };
}

function columns(change: Change): Column<Initiator>[] {
  return [
    nameColumn('Its iSCSI name'),
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
  /** Who is to be put on record, if that one is logged in. */
  const [called, setCalled] = useState('');
  const all = query.data?.initiators ?? [];
  const add = (
    <RoleButton
      takes="operator"
      leftSection={<IconPlus size={15} />}
      onClick={() => {
        setChosen(null);
        setCalled('');
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
      {query.data ? (
        <Guests
          recorded={all}
          record={(name) => {
            setChosen(null);
            setCalled(name);
            open('put');
          }}
        />
      ) : null}
      {dialog === 'put' ? (
        <PutDialog opened={chosen} called={chosen ? '' : called} all={all} onClose={close} />
      ) : null}
      {dialog === 'remove' && chosen ? (
        <RemoveDialog opened={chosen} all={all} onClose={close} />
      ) : null}
    </>
  );
}

function guestColumns(record: (name: string) => void): Column<Guest>[] {
  return [
    nameColumn('Its iSCSI name, as it has logged in with it'),
    {
      id: 'record',
      head: 'Record',
      by: () => '',
      cell: () => (
        <Standing
          word="not on record"
          tone="warn"
          tip="Nobody has put it on record: it uses volumes that are for everybody, and its name is believed."
        />
      ),
    },
    {
      id: 'sessions',
      head: 'Sessions',
      tip: 'Its sessions at all portals, with all targets',
      numeric: true,
      by: (one) => one.sessions,
      cell: (one) => one.sessions,
    },
    {
      id: 'portals',
      head: 'Nodes',
      tip: 'The nodes whose portals it has logged in at',
      by: (one) => one.portals.join(),
      cell: (one) => one.portals.join(', '),
    },
    {
      id: 'addresses',
      head: 'From',
      tip: 'The addresses that it connects from',
      spare: true,
      by: (one) => one.addresses.join(),
      cell: (one) => <span className="mono dim">{one.addresses.join(', ')}</span>,
    },
    {
      id: 'since',
      head: 'Since',
      tip: 'When the oldest of its sessions began',
      numeric: true,
      by: (one) => one.since_ms,
      cell: (one) => moment(one.since_ms),
    },
    {
      id: 'orders',
      head: 'Change',
      by: () => 0,
      cell: (one) => (
        <RoleButton
          takes="operator"
          variant="default"
          size="compact-xs"
          aria-label={`Put ${one.name} on record`}
          onClick={() => record(one.name)}
        >
          Put on record
        </RoleButton>
      ),
    },
  ];
}

/** Who is logged in, and nobody has put on record. */
function Guests({ recorded, record }: { recorded: Initiator[]; record: (name: string) => void }) {
  const query = useQuery(sessionsQuery);
  return (
    <Panel title="Logged in, and not on record" flush>
      <Shown query={query} what="the sessions">
        {({ sessions, silent, more }) => (
          <>
            <Silent nodes={silent} />
            {more ? (
              <p className="note note-inner">
                There are more sessions than the first {plural(sessions.length, 'session')}, by the
                hosts’ names, that were looked at: a volume’s page tells of its own.
              </p>
            ) : null}
            <DataTable
              label="Initiators that are not on record"
              rows={guests(sessions, recorded)}
              columns={guestColumns(record)}
              rowId={(one) => one.name}
              sortBy="name"
              empty={
                <Empty title="None">
                  {sessions.length === 0
                    ? 'No host is logged in.'
                    : 'Every host that is logged in is on record.'}
                </Empty>
              }
            />
          </>
        )}
      </Shown>
    </Panel>
  );
}
