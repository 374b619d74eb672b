import type { ReactNode } from 'react';
import type { PathSession } from '../api/types';
import { address, Link } from '../router';
import { digests, negotiated, onOneNode, PATH_STATES, PATH_UNKNOWN } from '../text/paths';
import { moment } from '../text/units';
import { Explained, Sign, Silent, Standing } from './basic';
import { type Column, DataTable } from './table';

const stateOf = (path: PathSession) => (path.state ? PATH_STATES[path.state] : PATH_UNKNOWN);

const COLUMNS: Column<PathSession>[] = [
  {
    id: 'initiator',
    head: 'Initiator',
    tip: 'Who has logged in, by its iSCSI name',
    by: (path) => path.initiator,
    cell: (path) => (
      <Link to={address('hosts', path.initiator)} className="mono">
        {path.initiator}
      </Link>
    ),
  },
  {
    id: 'volume',
    head: 'Volume',
    by: (path) => path.volume,
    cell: (path) => <Link to={address('volumes', path.volume, 'paths')}>{path.volume}</Link>,
  },
  {
    id: 'portal',
    head: 'Node',
    tip: 'The node whose portal it has logged in at',
    by: (path) => path.portal,
    cell: (path) => <Link to={address('nodes', path.portal)}>{path.portal}</Link>,
  },
  {
    id: 'state',
    head: 'State',
    tip: 'What the host is told of the path (ALUA)',
    by: (path) => stateOf(path).word,
    cell: (path) => <Standing {...stateOf(path)} />,
  },
  {
    id: 'local',
    head: 'Slices here',
    tip: 'Slices of the volume of which the node has an up-to-date copy, of all',
    numeric: true,
    by: (path) => (path.slices === 0 ? 0 : path.slices_local / path.slices),
    cell: (path) => `${path.slices_local} of ${path.slices}`,
  },
  {
    id: 'since',
    head: 'Since',
    tip: 'When it logged in, by the node’s clock',
    numeric: true,
    by: (path) => path.since_ms,
    cell: (path) => moment(path.since_ms),
  },
  {
    id: 'commands',
    head: 'Under way',
    tip: 'Its commands that have not been answered, for all volumes of its target',
    numeric: true,
    by: (path) => path.commands,
    cell: (path) => path.commands,
  },
  {
    id: 'chap',
    head: 'CHAP',
    tip: 'Whether it has proved who it is',
    by: (path) => (path.chap ? 'proved' : 'no'),
    cell: (path) => (path.chap ? 'proved' : <span className="dim">no</span>),
  },
  {
    id: 'agreed',
    head: 'Digests',
    tip: 'What has a checksum on the way; point at it for all that was negotiated',
    by: digests,
    cell: (path) => (
      <Explained
        tip={negotiated(path)
          .map(([name, value]) => `${name} ${value}`)
          .join(', ')}
      >
        {digests(path)}
      </Explained>
    ),
  },
  {
    id: 'address',
    head: 'From',
    tip: 'Address and port that it connects from',
    spare: true,
    by: (path) => path.address,
    cell: (path) => <span className="mono dim">{path.address}</span>,
  },
];

type Props = {
  label: string;
  sessions: PathSession[];
  silent: string[];
  /** What is the same in all rows. */
  of: 'volume' | 'initiator';
  empty: ReactNode;
};

/** Sessions of initiators, as paths to volumes; who has one way only is told above. */
export function PathTable({ label, sessions, silent, of, empty }: Props) {
  const alone = silent.length > 0 ? [] : onOneNode(sessions);
  return (
    <>
      <Silent nodes={silent} />
      {alone.length > 0 ? (
        <p className="note note-inner paths-alone">
          <Sign tone="warn" size={15} />
          <span>
            {alone
              .slice(0, 3)
              .map(({ initiator, volume, portals }) =>
                of === 'volume'
                  ? `${initiator} is logged in at ${[...portals].join()} only`
                  : `${volume} is reached through ${[...portals].join()} only`,
              )
              .join('; ')}
            {alone.length > 3 ? `, and ${alone.length - 3} more` : ''}. Without that node it stands
            still: log in at all portals.
          </span>
        </p>
      ) : null}
      <DataTable
        label={label}
        rows={sessions}
        columns={COLUMNS.filter(({ id }) => id !== of)}
        rowId={(path) =>
          `${path.portal} ${path.tsih} ${path.initiator} ${path.isid} ${path.volume}`
        }
        sortBy={of === 'volume' ? 'initiator' : 'volume'}
        search={sessions.length > 8 ? 'sessions' : undefined}
        empty={empty}
      />
    </>
  );
}
