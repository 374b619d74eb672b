import { Button, TextInput } from '@mantine/core';
import { IconArrowDown, IconArrowUp, IconSearch } from '@tabler/icons-react';
import { type ReactNode, useState } from 'react';
import { arrange, type Order, pageOf } from '../text/rows';
import { useTip } from './basic';

/** Rows that are drawn at once: a thousand volumes stay as smooth as ten. */
const ROWS_PER_PAGE = 50;

export type Column<T extends object> = {
  id: string;
  head: string;
  /** What it is sorted and searched by. */
  by: (row: T) => string | number;
  cell: (row: T) => ReactNode;
  /** Left out where there is little room. */
  spare?: boolean;
} & (
  | { numeric?: false; tip?: string }
  // What a number counts is always explained.
  | { numeric: true; tip: string }
);

type Props<T extends object> = {
  label: string;
  rows: T[];
  columns: Column<T>[];
  rowId: (row: T) => string;
  sortBy: string;
  descending?: boolean;
  /** What is searched, as in "volumes"; without it there is no field for it. */
  search?: string;
  empty: ReactNode;
  /** Beside the field for searching. */
  tools?: ReactNode;
};

/** A table that is sorted by its heads, searched, and turned over in pages. */
export function DataTable<T extends object>(props: Props<T>) {
  const [filter, setFilter] = useState('');
  const [order, setOrder] = useState<Order>({ id: props.sortBy, down: props.descending ?? false });
  const [asked, setAsked] = useState(0);
  const found = arrange(props.rows, props.columns, order, filter);
  const page = pageOf(found.length, ROWS_PER_PAGE, asked);
  const first = page * ROWS_PER_PAGE;
  const shown = found.slice(first, first + ROWS_PER_PAGE);
  return (
    <>
      {props.search || props.tools ? (
        <div className="table-tools">
          {props.search && props.rows.length > 0 ? (
            <TextInput
              aria-label={`Search ${props.search}`}
              placeholder={`Search ${props.search}`}
              size="xs"
              leftSection={<IconSearch size={14} aria-hidden />}
              value={filter}
              onChange={(event) => {
                setFilter(event.currentTarget.value);
                setAsked(0);
              }}
            />
          ) : null}
          {props.tools}
        </div>
      ) : null}
      {props.rows.length === 0 ? (
        props.empty
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what is wider than the window scrolls by keyboard, too
        <section className="table-scroll" tabIndex={0} aria-label={props.label}>
          <table className="table">
            <thead>
              <tr>
                {props.columns.map((column) => {
                  const sorted = order.id === column.id ? (order.down ? 'down' : 'up') : null;
                  return (
                    <th
                      key={column.id}
                      scope="col"
                      className={classOf(column)}
                      aria-sort={
                        sorted === 'up' ? 'ascending' : sorted === 'down' ? 'descending' : 'none'
                      }
                    >
                      <Head
                        column={column}
                        sorted={sorted}
                        onSort={() => setOrder({ id: column.id, down: sorted === 'up' })}
                      />
                    </th>
                  );
                })}
              </tr>
            </thead>
            <tbody>
              {shown.map((row) => (
                <tr key={props.rowId(row)}>
                  {props.columns.map((column) => (
                    <td key={column.id} className={classOf(column)}>
                      {column.cell(row)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
          {found.length === 0 ? (
            <div className="table-none">Nothing matches “{filter}”.</div>
          ) : null}
        </section>
      )}
      {found.length > ROWS_PER_PAGE ? (
        <div className="table-pages">
          <span>
            {first + 1} to {first + shown.length} of {found.length}
          </span>
          <Button
            variant="default"
            size="compact-xs"
            disabled={page === 0}
            onClick={() => setAsked(page - 1)}
          >
            Previous
          </Button>
          <Button
            variant="default"
            size="compact-xs"
            disabled={first + shown.length >= found.length}
            onClick={() => setAsked(page + 1)}
          >
            Next
          </Button>
        </div>
      ) : null}
    </>
  );
}

type HeadProps<T extends object> = {
  column: Column<T>;
  sorted: 'up' | 'down' | null;
  onSort: () => void;
};

/** What a column is, and that it is sorted by. */
function Head<T extends object>({ column, sorted, onSort }: HeadProps<T>) {
  const { about, on, shown } = useTip<HTMLButtonElement>(column.tip);
  return (
    <>
      <button ref={about} type="button" onClick={onSort} {...on}>
        {column.head}
        {sorted === 'up' ? <IconArrowUp size={12} aria-hidden /> : null}
        {sorted === 'down' ? <IconArrowDown size={12} aria-hidden /> : null}
      </button>
      {shown}
    </>
  );
}

function classOf<T extends object>(column: Column<T>): string {
  return `${column.numeric ? 'numeric' : ''} ${column.spare ? 'spare' : ''}`.trim();
}
