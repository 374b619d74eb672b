import { Button, TextInput } from '@mantine/core';
import { IconArrowDown, IconArrowUp, IconSearch } from '@tabler/icons-react';
import {
  type ColumnDef,
  columnFilteringFeature,
  createFilteredRowModel,
  createPaginatedRowModel,
  createSortedRowModel,
  filterFn_includesString,
  globalFilteringFeature,
  rowPaginationFeature,
  rowSortingFeature,
  sortFn_alphanumeric,
  sortFn_basic,
  tableFeatures,
  useTable,
} from '@tanstack/react-table';
import { type ReactNode, useState } from 'react';

const features = tableFeatures({
  columnFilteringFeature,
  globalFilteringFeature,
  rowSortingFeature,
  rowPaginationFeature,
  sortedRowModel: createSortedRowModel(),
  filteredRowModel: createFilteredRowModel(),
  paginatedRowModel: createPaginatedRowModel(),
  sortFns: { alphanumeric: sortFn_alphanumeric, basic: sortFn_basic },
  filterFns: { includesString: filterFn_includesString },
});

/** Rows that are drawn at once: a thousand volumes stay as smooth as ten. */
const ROWS_PER_PAGE = 50;

export type Column<T extends object> = {
  id: string;
  head: string;
  tip?: string;
  /** What it is sorted and searched by. */
  by: (row: T) => string | number;
  cell: (row: T) => ReactNode;
  numeric?: boolean;
  /** Left out where there is little room. */
  spare?: boolean;
};

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
  const columns: ColumnDef<typeof features, T>[] = props.columns.map((column) => ({
    id: column.id,
    accessorFn: column.by,
    header: column.head,
    sortFn: column.numeric ? 'basic' : 'alphanumeric',
  }));
  const table = useTable({
    features,
    columns,
    data: props.rows,
    getRowId: props.rowId,
    state: { globalFilter: filter },
    onGlobalFilterChange: (next) => setFilter(typeof next === 'function' ? next(filter) : next),
    globalFilterFn: 'includesString',
    autoResetPageIndex: false,
    initialState: {
      sorting: [{ id: props.sortBy, desc: props.descending ?? false }],
      pagination: { pageIndex: 0, pageSize: ROWS_PER_PAGE },
    },
  });
  const found = table.getFilteredRowModel().rows.length;
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
                table.setPageIndex(0);
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
                {table.getHeaderGroups()[0]?.headers.map((header, index) => {
                  const column = props.columns[index] as Column<T>;
                  const sorted = header.column.getIsSorted();
                  return (
                    <th
                      key={header.id}
                      scope="col"
                      className={classOf(column)}
                      aria-sort={
                        sorted === 'asc' ? 'ascending' : sorted === 'desc' ? 'descending' : 'none'
                      }
                    >
                      <button
                        type="button"
                        title={column.tip}
                        onClick={() => header.column.toggleSorting(sorted === 'asc')}
                      >
                        {column.head}
                        {sorted === 'asc' ? <IconArrowUp size={12} aria-hidden /> : null}
                        {sorted === 'desc' ? <IconArrowDown size={12} aria-hidden /> : null}
                      </button>
                    </th>
                  );
                })}
              </tr>
            </thead>
            <tbody>
              {table.getRowModel().rows.map((row) => (
                <tr key={row.id}>
                  {props.columns.map((column) => (
                    <td key={column.id} className={classOf(column)}>
                      {column.cell(row.original)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
          {found === 0 ? <div className="table-none">Nothing matches “{filter}”.</div> : null}
        </section>
      )}
      {found > ROWS_PER_PAGE ? (
        <div className="table-pages">
          <span>
            {table.state.pagination.pageIndex * ROWS_PER_PAGE + 1} to{' '}
            {Math.min(found, (table.state.pagination.pageIndex + 1) * ROWS_PER_PAGE)} of {found}
          </span>
          <Button
            variant="default"
            size="compact-xs"
            disabled={!table.getCanPreviousPage()}
            onClick={() => table.previousPage()}
          >
            Back
          </Button>
          <Button
            variant="default"
            size="compact-xs"
            disabled={!table.getCanNextPage()}
            onClick={() => table.nextPage()}
          >
            On
          </Button>
        </div>
      ) : null}
    </>
  );
}

function classOf<T extends object>(column: Column<T>): string {
  return `${column.numeric ? 'numeric' : ''} ${column.spare ? 'spare' : ''}`.trim();
}
