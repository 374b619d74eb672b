import { useQuery } from '@tanstack/react-query';
import { AUDIT_LIMIT, auditQuery } from '../api/queries';
import type { AuditEntry } from '../api/types';
import { Empty, More, PageHead, Shown, Standing } from '../parts/basic';
import { RolePage } from '../parts/role';
import { type Column, DataTable } from '../parts/table';
import { useTitle } from '../router';
import { purpose } from '../text/audit';
import { moment } from '../text/units';

const COLUMNS: Column<AuditEntry>[] = [
  {
    id: 'at',
    head: 'When',
    tip: 'When it was answered',
    by: (one) => one.at_ms,
    cell: (one) => moment(one.at_ms),
  },
  { id: 'who', head: 'Who', by: (one) => one.who, cell: (one) => one.who },
  {
    id: 'what',
    head: 'What',
    tip: 'What was asked for, the method and the path of the request, and what was made or set',
    by: (one) => `${one.method} ${one.path} ${one.about ?? ''}`,
    cell: (one) => (
      <>
        <div>{purpose(one.method, one.path)}</div>
        <span className="mono dim">
          {one.method} {one.path}
          {one.about ? `: ${one.about}` : null}
        </span>
      </>
    ),
  },
  {
    id: 'result',
    head: 'Result',
    tip: 'Whether it was done, and if not, why not',
    by: (one) => one.status,
    cell: (one) =>
      one.status < 400 ? (
        <Standing word="done" tone="good" tip={`HTTP status ${one.status}`} />
      ) : (
        <Standing word={one.code ?? 'failed'} tone="warn" tip={`HTTP status ${one.status}`} />
      ),
  },
  {
    id: 'from',
    head: 'From',
    tip: 'The address that the request came from',
    spare: true,
    by: (one) => one.from,
    cell: (one) => <span className="mono">{one.from}</span>,
  },
  {
    id: 'node',
    head: 'Through',
    tip: 'The node whose interface was asked',
    spare: true,
    by: (one) => one.node,
    cell: (one) => one.node,
  },
];

/** What was done, and what was refused. */
export function AuditPage() {
  useTitle('Audit');
  return (
    <RolePage takes="administrator" title="Audit">
      <Audit />
    </RolePage>
  );
}

function Audit() {
  const query = useQuery(auditQuery);
  return (
    <>
      <PageHead title="Audit" />
      <p className="page-lead">
        The newest of what was changed through the interface of any node, and of what was refused.
        Each node keeps its own in <code>audit.log</code>.
      </p>
      <Shown query={query} what="the log">
        {({ entries, silent, next }) => (
          <div className="panel">
            {silent.length > 0 ? (
              <p className="note">
                What was done through {silent.join(', ')} is missing: no answer.
              </p>
            ) : null}
            <More next={next} shown={AUDIT_LIMIT} command="holdfast audit --limit 10000" />
            <DataTable
              label="What was done"
              rows={entries}
              columns={COLUMNS}
              rowId={(one) => `${one.node} ${one.at_ms} ${one.number ?? one.path}`}
              sortBy="at"
              descending
              search="entries"
              empty={<Empty title="Nothing was changed yet" />}
            />
          </div>
        )}
      </Shown>
    </>
  );
}
