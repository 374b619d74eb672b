import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { queryClient, sessionQuery } from '../api/queries';
import type { Identity } from '../api/types';
import { UsersPage } from './users';

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

/** The page, over a node whose first answer to what is to be made gets lost; gives the key of each time that it is asked. */
function show(refusal: object): (string | null)[] {
  const keys: (string | null)[] = [];
  vi.stubGlobal('fetch', async (request: Request) => {
    const path = new URL(request.url).pathname;
    if (request.method === 'POST') {
      keys.push(request.headers.get('Idempotency-Key'));
      if (keys.length === 1) throw new TypeError('connection reset');
      return Response.json(refusal, { status: 409 });
    }
    if (path === '/api/v1/session') return Response.json(WHO);
    if (path === '/api/v1/users') return Response.json({ users: [] });
    if (path === '/api/v1/tokens') return Response.json({ tokens: [] });
    return new Response(null, { status: 503 });
  });
  queryClient.setQueryData(sessionQuery.queryKey, WHO);
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <UsersPage />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return keys;
}

const WHO: Identity = {
  kind: 'user',
  name: 'ada',
  role: 'administrator',
  scope: 'everything',
};

/** Sends it until the answer is there, and once more as something else. */
async function insist(keys: (string | null)[], button: string, change: () => void) {
  const press = async (count: number) => {
    const dialog = await screen.findByRole('dialog');
    const send = [...dialog.querySelectorAll('button')].find((one) => one.textContent === button);
    await waitFor(() => expect(send?.disabled).toBe(false));
    fireEvent.click(send as HTMLElement);
    await waitFor(() => expect(keys).toHaveLength(count));
  };
  await press(1);
  await screen.findByText('no answer');
  await press(2);
  await screen.findByText('refused');
  change();
  await press(3);
}

function expectOnce(keys: (string | null)[]) {
  expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
  expect(keys[1]).toBe(keys[0]);
  expect(keys[2]).toMatch(/^[0-9a-f]{32}$/);
  expect(keys[2]).not.toBe(keys[0]);
}

const type = async (label: string, value: string) =>
  fireEvent.change(await screen.findByLabelText(label), { target: { value } });

test('a token of which the answer was lost is asked for by the same key, and not made twice', async () => {
  const keys = show({ title: 'already made', detail: 'refused', status: 409 });
  fireEvent.click((await screen.findAllByRole('button', { name: 'Make token' }))[0] as HTMLElement);
  await type('What it is for', 'Prometheus');
  await insist(keys, 'Make token', () => type('What it is for', 'backup'));
  expectOnce(keys);
});

test('so is a user', async () => {
  const keys = show({ title: 'exists', detail: 'refused', status: 409 });
  fireEvent.click((await screen.findAllByRole('button', { name: 'Add user' }))[0] as HTMLElement);
  await type('Name', 'bob');
  await type('Password', 'correct horse battery');
  await insist(keys, 'Add user', () => type('Name', 'eve'));
  expectOnce(keys);
});
