import { useQuery } from '@tanstack/react-query';
import { ask, client } from '../api/client';
import { type Retention, retentionQuery } from '../api/retention';
import { Empty, Explained, Panel, Shown, Silent } from '../parts/basic';
import { SetForm } from '../parts/set-form';
import { type Column, DataTable } from '../parts/table';
import {
  type Bound,
  changed,
  GREATEST_MIB,
  type KeptRow,
  LEAST_MIB,
  parseMib,
  reach,
  rowsOf,
  sizeOf,
} from '../text/retention';
import { bytes } from '../text/units';

const RANGE = `${sizeOf(LEAST_MIB)} to ${sizeOf(GREATEST_MIB)}`;

const FIELDS: { key: Bound; label: string; means: string }[] = [
  {
    key: 'audit_mib',
    label: 'Audit log at most',
    means: `Bytes that each node keeps of what was done through its interface: ${RANGE}. Where it is made less, a file that is too long goes when the next one is full.`,
  },
  {
    key: 'events_mib',
    label: 'Events at most',
    means: `Bytes that each node keeps of what happened, if it has a copy: ${RANGE}.`,
  },
];

const COLUMNS: Column<KeptRow>[] = [
  { id: 'node', head: 'Node', by: (row) => row.node, cell: (row) => row.node },
  { id: 'what', head: 'Kept', by: (row) => row.what, cell: (row) => row.what },
  {
    id: 'bytes',
    head: 'Size',
    tip: 'Bytes of its files now',
    by: (row) => row.shared?.bytes ?? row.bytes ?? -1,
    cell: (row) => <Size count={row.bytes} tip={row.note} />,
    numeric: true,
  },
  {
    id: 'most',
    head: 'At most',
    tip: 'Bytes that they may have',
    spare: true,
    by: (row) => row.shared?.bytesMax ?? row.bytesMax ?? -1,
    cell: (row) => <Size count={row.bytesMax} tip={mostOf(row)} />,
    numeric: true,
  },
  {
    id: 'reach',
    head: 'Reaches back',
    tip: 'How old the oldest of it is',
    by: (row) => -(row.oldestMs ?? Number.MAX_SAFE_INTEGER),
    cell: (row) => {
      const { text, tip } = reach(row);
      return <Explained tip={tip}>{text}</Explained>;
    },
    numeric: true,
  },
];

function mostOf(row: KeptRow): string {
  return row.keptSeconds === null
    ? 'Bytes that its files may have on this node. A node follows a change within some seconds.'
    : "Bytes that all resolutions may have together. It is changed in the node's file: history.bytes_max, and in effect when the node starts.";
}

function Size({ count, tip }: { count: number | null; tip: string }) {
  return count === null ? '' : <Explained tip={tip}>{bytes(count)}</Explained>;
}

/** How much is kept of what was done, what happened and what was measured. */
export function RetentionPanel() {
  const query = useQuery(retentionQuery);
  return (
    <>
      <Panel title="Retention">
        <Shown query={query} what="what is kept">
          {(retention) => <Form retention={retention} />}
        </Shown>
      </Panel>
      {query.data ? <Kept retention={query.data} /> : null}
    </>
  );
}

function Kept({ retention: { nodes, silent } }: { retention: Retention }) {
  return (
    <Panel title="What each node keeps" flush>
      <Silent nodes={silent} />
      <DataTable
        label="Audit logs, events and histories by node"
        rows={rowsOf(nodes)}
        columns={COLUMNS}
        rowId={(row) => `${row.node} ${row.what}`}
        sortBy="node"
        empty={
          <Empty title="No node tells what it keeps">
            Nodes of earlier versions do not, and none answers that does.
          </Empty>
        }
      />
    </Panel>
  );
}

function Form({ retention }: { retention: Retention }) {
  return (
    <SetForm
      latest={retention}
      fields={FIELDS.map(({ key, label, means }) => ({
        key,
        label,
        means,
        write: (now: Retention) => sizeOf(now[key]),
        fault: (text: string) =>
          parseMib(text) === null ? `whole MiB, ${RANGE}, as in ${sizeOf(64)}` : undefined,
      }))}
      changed={changed}
      send={(body, header) => ask(client.PATCH('/api/v1/retention', { params: { header }, body }))}
      done="Nodes follow within some seconds"
      saves="Set retention"
      undoes="Undo changes of retention"
    />
  );
}
