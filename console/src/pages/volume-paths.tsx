import { NativeSelect } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { reservationsQuery, volumeQuery, volumeSessionsQuery } from '../api/queries';
import type { RegisteredKey, Reservations } from '../api/types';
import { Empty, Explained, Panel, Shown, Sign } from '../parts/basic';
import { HistoryCharts } from '../parts/chart';
import { PathTable } from '../parts/paths';
import { type Column, DataTable } from '../parts/table';
import { address, Link } from '../router';
import { RESERVATIONS } from '../text/paths';

/** Who is logged in to a volume, through which nodes, and what hosts have reserved. */
export function VolumePaths({ name }: { name: string }) {
  const sessions = useQuery(volumeSessionsQuery(name));
  const reservations = useQuery(reservationsQuery(name));
  return (
    <>
      <Panel title="Sessions and paths" flush>
        <Shown query={sessions} what="the sessions">
          {({ sessions, silent }) => (
            <PathTable
              label="Sessions"
              sessions={sessions}
              silent={silent}
              of="volume"
              empty={
                <Empty
                  title="No host is logged in"
                  action={<Link to={address('volumes', name, 'attach')}>How to attach it</Link>}
                >
                  Each session of a host at a node’s portal is a path to the volume. Hosts log in at
                  all portals, so that they go on when a node does not.
                </Empty>
              }
            />
          )}
        </Shown>
      </Panel>
      <InitiatorCharts volume={name} />
      <Panel title="Reservations" flush>
        <Shown query={reservations} what="the reservations">
          {(reservations) => <Reserved reservations={reservations} />}
        </Shown>
      </Panel>
    </>
  );
}

/** What one host does with the volume: one that is logged in, or that it is for. */
function InitiatorCharts({ volume }: { volume: string }) {
  const { data: paths } = useQuery(volumeSessionsQuery(volume));
  const access = useQuery(volumeQuery(volume)).data?.access;
  const [chosen, setChosen] = useState<string | null>(null);
  const names = new Set(paths?.sessions.map(({ initiator }) => initiator).sort());
  for (const name of access?.initiators ?? []) names.add(name);
  // One that was chosen, and has logged out, is still looked at.
  if (chosen !== null) names.add(chosen);
  const initiator = chosen ?? [...names][0];
  if (initiator === undefined) return null;
  return (
    <HistoryCharts
      title="Load of one host"
      subject={{ of: 'initiator', volume, initiator }}
      tools={
        <NativeSelect
          size="xs"
          aria-label="Initiator"
          data={[...names]}
          value={initiator}
          onChange={(event) => setChosen(event.currentTarget.value)}
        />
      }
    />
  );
}

const COLUMNS: Column<RegisteredKey>[] = [
  {
    id: 'initiator',
    head: 'Registered initiator',
    tip: 'Whose key it is',
    by: (key) => key.initiator,
    cell: (key) => (
      <Link to={address('hosts', key.initiator)} className="mono">
        {key.initiator}
      </Link>
    ),
  },
  {
    id: 'key',
    head: 'Key',
    tip: 'The reservation key, as the host chose it',
    by: (key) => key.key,
    cell: (key) => <span className="mono">{key.key}</span>,
  },
  {
    id: 'portal',
    head: 'Node',
    tip: 'Through whose target port it was registered',
    by: (key) => key.portal,
    cell: (key) => (key.all_target_ports ? 'all, at once' : key.portal),
  },
  {
    id: 'holder',
    head: 'Holds it',
    tip: 'Whether the reservation is its own',
    by: (key) => (key.holder ? 0 : 1),
    cell: (key) =>
      key.holder ? (
        <span className="standing">
          <Sign tone="good" size={15} />
          <span>holder</span>
        </span>
      ) : (
        <span className="dim">no</span>
      ),
  },
  {
    id: 'isid',
    head: 'ISID',
    tip: 'The initiator’s part of the session’s identifier',
    spare: true,
    by: (key) => key.isid,
    cell: (key) => <span className="mono dim">{key.isid}</span>,
  },
];

function Reserved({ reservations }: { reservations: Reservations }) {
  const { reservation, registrations, reserved, generation } = reservations;
  return (
    <>
      {reservation || reserved || registrations.length > 0 ? (
        <dl className="facts facts-inner">
          <dt>Reservation</dt>
          <dd>
            {reservation ? (
              <>
                <Explained tip={RESERVATIONS[reservation.type].forbids}>
                  <b>{RESERVATIONS[reservation.type].name}</b>
                </Explained>
                <span className="dim"> (type {reservation.code})</span>
              </>
            ) : reserved ? (
              <Explained tip="Only the holder reads and writes, until its session ends.">
                <b>RESERVE (SPC-2)</b>
              </Explained>
            ) : (
              'none: whoever is registered has reserved nothing'
            )}
          </dd>
          {reservation || reserved ? (
            <>
              <dt>Holder</dt>
              <dd>{holder(reservation?.holder ?? reserved) ?? 'all who are registered'}</dd>
            </>
          ) : null}
          <dt>
            <Explained tip="How often registrations were changed (PRGENERATION).">
              Generation
            </Explained>
          </dt>
          <dd>{generation}</dd>
        </dl>
      ) : null}
      {reserved && registrations.length === 0 ? null : (
        <DataTable
          label="Registered keys"
          rows={registrations}
          columns={COLUMNS}
          rowId={(key) => `${key.initiator} ${key.isid} ${key.portal}`}
          sortBy="holder"
          empty={
            <Empty title="No host has registered a key">
              Clusters of hosts do it by themselves: a Windows failover cluster, or Linux with
              fence_scsi, decides by reservations who may write.
            </Empty>
          }
        />
      )}
    </>
  );
}

function holder(nexus: Reservations['reserved']) {
  if (!nexus) return null;
  return (
    <>
      <span className="mono">{nexus.initiator}</span>, through {nexus.portal}
    </>
  );
}
