import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, expect, test } from 'vitest';
import { Problem } from '../api/client';
import { queryClient } from '../api/queries';
import { RemovalDialog } from './removal';

type Thing = { name: string; size: number; etag: string };

const SHOWN: Thing = { name: 'db-1', size: 4, etag: '"1"' };

function dialog(remove: (shown: Thing) => Promise<unknown>, latest = SHOWN) {
  const gone: string[] = [];
  const shown = (now: Thing) => (
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <RemovalDialog
          title="Remove db-1"
          does="Remove"
          present={SHOWN}
          latest={now}
          remove={remove}
          done="It is gone"
          onDone={() => gone.push('done')}
          onClose={() => gone.push('closed')}
        >
          {({ size }) => <p>It has {size} of them.</p>}
        </RemovalDialog>
      </QueryClientProvider>
    </MantineProvider>
  );
  const { rerender } = render(shown(latest));
  return { gone, now: (latest: Thing) => rerender(shown(latest)) };
}

const type = async (value: string) =>
  fireEvent.change(await screen.findByRole('textbox'), { target: { value } });
const button = () => screen.getByRole('button', { name: 'Remove' }) as HTMLButtonElement;

afterEach(() => {
  cleanup();
  queryClient.clear();
});

test('nothing goes before its whole name is typed', async () => {
  const removed: Thing[] = [];
  const { gone } = dialog(async (shown) => removed.push(shown));
  for (const part of ['', 'db', 'DB-1', 'db-1 ', 'db-10']) {
    await type(part);
    expect(button().disabled).toBe(true);
    // By the return key neither.
    fireEvent.submit(button());
  }
  expect(removed).toEqual([]);
  await type('db-1');
  fireEvent.click(button());
  await waitFor(() => expect(gone).toEqual(['done']));
  expect(removed).toEqual([SHOWN]);
});

test('what somebody else has made of it does not go before it was shown', async () => {
  const refused = { title: 'another', detail: 'it has another tag', status: 412 };
  const removed: string[] = [];
  const { gone, now } = dialog(async ({ etag }) => {
    removed.push(etag);
    if (etag === SHOWN.etag) throw new Problem(refused);
  });
  await type('db-1');
  fireEvent.click(button());
  const show = await screen.findByRole('button', { name: 'Show what is on record now' });
  expect(gone).toEqual([]);
  now({ ...SHOWN, size: 9, etag: '"2"' });
  screen.getByText('It has 4 of them.');
  fireEvent.click(show);
  await screen.findByText('It has 9 of them.');
  fireEvent.click(button());
  await waitFor(() => expect(gone).toEqual(['done']));
  expect(removed).toEqual(['"1"', '"2"']);
});
