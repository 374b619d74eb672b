import { MantineProvider } from '@mantine/core';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, expect, test } from 'vitest';
import { Explained } from './basic';
import { type Column, DataTable } from './table';

type Row = { name: string; size: number };

const COLUMNS: Column<Row>[] = [
  { id: 'name', head: 'Name', by: (row) => row.name, cell: (row) => row.name },
  {
    id: 'size',
    head: 'Size',
    tip: 'What hosts see',
    numeric: true,
    by: (row) => row.size,
    cell: (row) => row.size,
  },
];

afterEach(cleanup);

/** What those are told who do not see it. */
const described = (element: HTMLElement) =>
  document.getElementById(element.getAttribute('aria-describedby') ?? '')?.textContent;

test('what explains itself does so to those who do not see it, too', async () => {
  render(
    <MantineProvider env="test">
      <Explained tip="Pages that are taken">4 GiB</Explained>
    </MantineProvider>,
  );
  const number = screen.getByText('4 GiB');
  fireEvent.focus(number);
  await screen.findByRole('tooltip');
  expect(described(number)).toBe('Pages that are taken');
});

test('a head explains itself to whoever comes to it by keyboard, and sorts', async () => {
  render(
    <MantineProvider env="test">
      <DataTable
        label="Rows"
        rows={[
          { name: 'a', size: 2 },
          { name: 'b', size: 1 },
        ]}
        columns={COLUMNS}
        rowId={(row) => row.name}
        sortBy="name"
        empty={null}
      />
    </MantineProvider>,
  );
  const head = screen.getByRole('button', { name: 'Size' });
  expect(screen.queryByText('What hosts see')).toBeNull();
  fireEvent.focus(head);
  const tip = await screen.findByRole('tooltip');
  expect(tip.textContent).toBe('What hosts see');
  expect(described(head)).toBe('What hosts see');
  fireEvent.keyDown(head, { key: 'Escape' });
  expect(screen.queryByRole('tooltip')).toBeNull();
  fireEvent.click(head);
  expect(screen.getAllByRole('row').map((row) => row.textContent)).toEqual([
    'NameSize',
    'b1',
    'a2',
  ]);
});
