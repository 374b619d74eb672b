import { SegmentedControl } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { clusterQuery, nodesQuery } from '../api/queries';
import type { DeviceTier, Node } from '../api/types';
import { Empty, Explained, PageHead, Panel, Shown, Standing } from '../parts/basic';
import { HistoryCharts } from '../parts/chart';
import { Left } from '../parts/left';
import { NodeMap } from '../parts/nodemap';
import { Prose } from '../parts/prose';
import { type Column, DataTable } from '../parts/table';
import { address, Link, useTitle } from '../router';
import { bytes, bytesPerSecond, count } from '../text/units';
import { nodeState, TIERS, WORK_TIP } from '../text/words';

const COLUMNS: Column<Node>[] = [
  {
    id: 'name',
    head: 'Name',
    by: (node) => node.name,
    cell: (node) => (
      <Link to={address('nodes', node.name)} className="strong-link">
        {node.name}
      </Link>
    ),
  },
  {
    id: 'state',
    head: 'State',
    by: (node) => nodeState(node).word,
    cell: (node) => <Standing {...nodeState(node)} />,
  },
  {
    id: 'leads',
    head: 'Leads',
    tip: 'Slices of which it is the primary, and that are served',
    numeric: true,
    by: (node) => node.primaries,
    cell: (node) => node.primaries,
  },
  {
    id: 'replicas',
    head: 'Replicas',
    tip: 'Copies of slices that it holds',
    numeric: true,
    by: (node) => node.replicas,
    cell: (node) => node.replicas,
  },
  {
    id: 'work',
    head: 'Work',
    tip: WORK_TIP,
    numeric: true,
    by: (node) => node.work_per_second ?? -1,
    cell: (node) => (node.work_per_second == null ? '–' : `${count(node.work_per_second)}/s`),
  },
  {
    id: 'sessions',
    head: 'Sessions',
    tip: 'Sessions of initiators at its portal',
    numeric: true,
    by: (node) => node.sessions ?? -1,
    cell: (node) => node.sessions ?? '–',
  },
  {
    id: 'sync',
    head: 'To copy',
    tip: 'What its own replicas have to be brought, and what has to go from it',
    by: (node) => (node.to_receive?.bytes ?? 0) + (node.to_move?.bytes ?? 0),
    cell: (node) => <ToCopy node={node} />,
  },
  {
    id: 'portal',
    head: 'Portal',
    tip: 'Where initiators reach it',
    spare: true,
    by: (node) => node.portal,
    cell: (node) => <span className="mono">{node.portal}</span>,
  },
  {
    id: 'console',
    head: 'Console',
    tip: 'This console, served by that node',
    spare: true,
    by: (node) => node.api,
    cell: (node) =>
      node.answers ? (
        <a href={node.api} className="mono">
          {node.api.replace(/^https?:\/\//, '')}
        </a>
      ) : (
        '–'
      ),
  },
];

/** What is being copied to a node, or away from it. */
export function ToCopy({ node }: { node: Node }) {
  const { to_move: move, to_receive: receive } = node;
  if (move && move.slices > 0) {
    return (
      <Explained tip="What has to go from it, or to be rebuilt elsewhere in its place.">
        {bytes(move.bytes)} away
        {move.bytes_per_second ? ` at ${bytesPerSecond(move.bytes_per_second)}` : ''}
        <Left seconds={move.seconds_left} />
      </Explained>
    );
  }
  if (receive && receive.replicas > 0) {
    return (
      <Explained tip="What its own replicas have to be brought.">
        {bytes(receive.bytes)} to it
        {receive.bytes_per_second > 0 ? ` at ${bytesPerSecond(receive.bytes_per_second)}` : ''}
        <Left seconds={receive.seconds_left} />
      </Explained>
    );
  }
  return <>–</>;
}

export function NodesPage() {
  useTitle('Nodes');
  const query = useQuery(nodesQuery);
  return (
    <>
      <PageHead title="Nodes and devices" />
      <p className="page-lead">
        One that is to be added registers when it is started, and waits here until it is admitted on
        its page: <Prose text={'"One more machine" in docs/deployment.md'} />. Devices are added,
        drained and replaced on the page of their node.
      </p>
      <Shown query={query} what="the nodes">
        {({ nodes }) => (
          <>
            <Panel title="Where they stand">
              <NodeMap nodes={nodes} />
            </Panel>
            <div className="panel">
              <DataTable
                label="Nodes"
                rows={nodes}
                columns={COLUMNS}
                rowId={(node) => node.name}
                sortBy="name"
                search={nodes.length > 8 ? 'nodes' : undefined}
                empty={
                  <Empty title="No node has registered">
                    Start one: its configuration says which cluster it belongs to.
                  </Empty>
                }
              />
            </div>
            <TierCharts />
          </>
        )}
      </Shown>
    </>
  );
}

/** What all devices of a class do, on all nodes. */
function TierCharts() {
  const tiers = useQuery(clusterQuery).data?.status.tiers ?? [];
  const [chosen, setChosen] = useState<DeviceTier | null>(null);
  const tier = tiers.find((one) => one.tier === chosen)?.tier ?? tiers[0]?.tier;
  if (tier === undefined) return null;
  return (
    <HistoryCharts
      title={`Devices of tier ${TIERS[tier]}`}
      subject={{ of: 'tier', tier }}
      tools={
        tiers.length > 1 ? (
          <SegmentedControl
            size="xs"
            aria-label="Tier"
            data={tiers.map((one) => ({ value: one.tier, label: TIERS[one.tier] }))}
            value={tier}
            onChange={(to) => setChosen(to as DeviceTier)}
          />
        ) : null
      }
    />
  );
}
