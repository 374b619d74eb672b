import { useQuery } from '@tanstack/react-query';
import { Unreached } from '../api/client';
import { clusterQuery, nodeQuery } from '../api/queries';
import type { Node, NodeDetails } from '../api/types';
import { FindingDetails } from '../parts/attention';
import { Explained, Failure, PageHead, Panel, Sign, Standing, Tag, Waiting } from '../parts/basic';
import { HistoryCharts } from '../parts/chart';
import { useDialog } from '../parts/dialog';
import { Prose } from '../parts/prose';
import { RoleButton } from '../parts/role';
import { type Column, DataTable } from '../parts/table';
import { address, Link, useTitle } from '../router';
import { lackWords } from '../text/slices';
import { bytes, count, percent, plural } from '../text/units';
import { NODE_USED_TIP, nodeState, WORK_TIP } from '../text/words';
import { AdmitDialog, OrderDialog, RemoveDialog } from './node-changes';
import { DevicesPanel } from './node-devices';
import { ToCopy } from './nodes';

type Kind = 'admit' | 'maintenance-on' | 'maintenance-off' | 'drain' | 'cancel-drain' | 'remove';

/** What may be ordered of a node as it stands. The API has the last word, and says why not. */
function orders(node: Node): { kind: Kind; label: string; danger?: boolean }[] {
  switch (node.standing) {
    case 'waiting':
      return [{ kind: 'admit', label: 'Admit' }];
    case 'maintenance':
      return [{ kind: 'maintenance-off', label: 'End maintenance' }];
    case 'draining':
      return [
        { kind: 'cancel-drain', label: 'Cancel drain' },
        ...(node.is_drained ? [{ kind: 'remove' as const, label: 'Remove', danger: true }] : []),
      ];
    case 'removed':
      return [];
    default:
      return [
        { kind: 'maintenance-on', label: 'Maintenance' },
        { kind: 'drain', label: 'Drain' },
      ];
  }
}

export function NodePage({ name }: { name: string }) {
  useTitle(`Node ${name}`);
  const query = useQuery(nodeQuery(name));
  const [dialog, open, close] = useDialog<Kind>();
  const { data, error } = query;
  const above = <Link to="/nodes">Nodes and devices</Link>;
  if (!data) {
    return (
      <>
        <PageHead title={name} above={above} />
        {error ? (
          <Failure error={error} retry={() => query.refetch()} />
        ) : (
          <Waiting what="the node" />
        )}
      </>
    );
  }
  const { node } = data;
  return (
    <>
      <PageHead
        title={name}
        above={above}
        beside={<Standing {...nodeState(node)} />}
        actions={orders(node).map(({ kind, label, danger }) => (
          <RoleButton
            key={kind}
            takes={kind === 'remove' ? 'administrator' : 'operator'}
            variant="default"
            className={danger ? 'danger' : undefined}
            onClick={() => open(kind)}
          >
            {label}
          </RoleButton>
        ))}
      />
      {error && !(error instanceof Unreached) ? <Failure error={error} /> : null}
      <Facts node={node} />
      <Findings name={name} />
      <DevicesPanel name={name} answers={node.answers !== false} />
      <HistoryCharts subject={{ of: 'node', name }} />
      <Panel title="What is on it" flush>
        <Slices details={data} />
      </Panel>
      {dialog === 'admit' ? <AdmitDialog node={node} onClose={close} /> : null}
      {dialog === 'remove' ? <RemoveDialog node={node} onClose={close} /> : null}
      {dialog && dialog !== 'admit' && dialog !== 'remove' ? (
        <OrderDialog node={node} order={dialog} onClose={close} />
      ) : null}
    </>
  );
}

function Facts({ node }: { node: Node }) {
  return (
    <div className="fact-line">
      {node.room ? (
        <Explained tip={NODE_USED_TIP}>
          <b>{bytes(node.room.used_bytes)}</b> of {bytes(node.room.bytes)} used (
          {percent(node.room.used_bytes, node.room.bytes)})
        </Explained>
      ) : (
        <span>room not known</span>
      )}
      <Explained tip="Copies of slices that it holds, and those of them that it leads.">
        {plural(node.replicas, 'replica')}, leads {node.primaries}
      </Explained>
      {node.work_per_second == null ? null : (
        <Explained tip={WORK_TIP}>work {count(node.work_per_second)}/s</Explained>
      )}
      {node.sessions == null ? null : (
        <Explained tip="Sessions of initiators at its portal.">
          {plural(node.sessions, 'session')}
        </Explained>
      )}
      <Explained tip="Where initiators reach it." className="mono">
        {node.portal}
      </Explained>
      <Tag tip="Where it stands: copies are kept on different sites, as far as there are any.">
        {node.site ? `site ${node.site}` : 'no site said'}
      </Tag>
      {node.failure_domain ? (
        <Tag tip="Nodes that say the same fail together: no two copies are there.">
          domain {node.failure_domain}
        </Tag>
      ) : null}
      <ToCopyFact node={node} />
    </div>
  );
}

function ToCopyFact({ node }: { node: Node }) {
  const busy = (node.to_move?.slices ?? 0) > 0 || (node.to_receive?.replicas ?? 0) > 0;
  return busy ? <ToCopy node={node} /> : null;
}

function Findings({ name }: { name: string }) {
  const findings = useQuery(clusterQuery).data?.explanation.nodes.find(
    (one) => one.node === name,
  )?.findings;
  if (!findings || findings.length === 0) return null;
  return (
    <ul className="attention attention-alone">
      {findings.map((finding) => (
        <li key={`${finding.kind} ${finding.what}`}>
          <Sign
            tone={finding.health === 'unavailable' ? 'bad' : finding.health ? 'warn' : 'calm'}
          />
          <div>
            <Prose text={finding.what} alone />
            <FindingDetails finding={finding} />
          </div>
        </li>
      ))}
    </ul>
  );
}

type Replica = NodeDetails['slices'][number];

const ROLES: Record<Exclude<Replica['role'], 'absent'>, string> = {
  primary: 'leads it',
  'in-sync': 'in sync',
  joining: 'is being brought up to date',
};

function roleWords({ role, bytes_lacking }: Replica): string {
  return role === 'absent' ? lackWords(bytes_lacking) : ROLES[role];
}

const COLUMNS: Column<Replica>[] = [
  {
    id: 'volume',
    head: 'Volume',
    by: (replica) => replica.volume,
    cell: (replica) => (
      <Link to={address('volumes', replica.volume, 'copies')}>{replica.volume}</Link>
    ),
  },
  {
    id: 'slice',
    head: 'Slice',
    tip: 'Which slice of the volume, from 0 on: each is 4 GiB',
    numeric: true,
    by: (replica) => replica.index,
    cell: (replica) => replica.index,
  },
  {
    id: 'role',
    head: 'What the replica is to it',
    by: roleWords,
    cell: roleWords,
  },
  {
    id: 'used',
    head: 'Slice holds',
    tip: 'Bytes of the slice’s pages, wherever they are: a replica that lacks some has so much less',
    numeric: true,
    by: (replica) => replica.used_bytes ?? -1,
    cell: (replica) => (replica.used_bytes == null ? '–' : bytes(replica.used_bytes)),
  },
  {
    id: 'leaves',
    head: 'Leaves',
    tip: 'Whether it is to go, or to be rebuilt elsewhere',
    by: (replica) => Number(replica.leaves),
    cell: (replica) => (replica.leaves ? 'yes' : ''),
  },
];

function Slices({ details }: { details: NodeDetails }) {
  return (
    <DataTable
      label="What is on the node"
      rows={details.slices}
      columns={COLUMNS}
      rowId={(replica) => `${replica.volume}/${replica.index}`}
      sortBy="volume"
      search={details.slices.length > 20 ? 'volumes' : undefined}
      empty={<p className="note note-inner">Nothing is on it.</p>}
    />
  );
}
