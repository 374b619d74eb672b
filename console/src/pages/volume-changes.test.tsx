import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { queryClient } from '../api/queries';
import type { Volume } from '../api/types';
import { DeleteDialog, GrowDialog } from './volume-changes';

const GIB = 1024 ** 3;

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('a volume that grows beyond what there is may do so, and it is said what follows', async () => {
  const answers: Record<string, unknown> = {
    '/api/v1/status': {
      pool: { bytes: 100 * GIB, used_bytes: 0 },
      promised_bytes: 60 * GIB,
      nodes: { total: 3, up: 2 },
    },
    '/api/v1/explain': { nodes: [], volumes: [] },
  };
  vi.stubGlobal('fetch', async (request: Request) => {
    const answer = answers[new URL(request.url).pathname];
    return answer ? Response.json(answer) : new Response(null, { status: 503 });
  });
  const volume = { name: 'db', bytes: 10 * GIB, policy: 'mirror3', etag: '"1"' } as Volume;
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <GrowDialog volume={volume} onClose={() => {}} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  const grow = (value: string) =>
    fireEvent.change(screen.getByLabelText(/New size/), { target: { value } });
  // What it has is promised already: three copies of what comes to that.
  grow('20 GiB');
  await screen.findByText(/90 % of the pool/);
  expect(screen.queryByText(/refused/)).toBeNull();
  grow('30 GiB');
  await screen.findByText(/promised 120 % of the pool/);
  screen.getByText(/The room of the node that is not up is not counted/);
  const button: HTMLButtonElement = screen.getByRole('button', { name: 'Grow' });
  expect(button.disabled).toBe(false);
});

test('whoever deletes a volume sees that hosts use it', async () => {
  const summary = { name: 'db', sessions: 2 };
  vi.stubGlobal('fetch', async (request: Request) =>
    new URL(request.url).pathname === '/api/v1/volumes'
      ? Response.json({ volumes: [summary] })
      : new Response(null, { status: 503 }),
  );
  const volume = { name: 'db', bytes: GIB, policy: 'mirror2', etag: '"1"' } as Volume;
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <DeleteDialog volume={volume} onClose={() => {}} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  await screen.findByText(/^2 sessions of hosts are open/);
});
