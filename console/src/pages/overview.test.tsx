import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen, waitFor } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { clusterQuery, historyQuery, queryClient } from '../api/queries';
import type { Explanation, History, Status } from '../api/types';
import { Headline } from './overview';

const STATUS = {
  health: 'healthy',
  volumes: { total: 1, healthy: 1, degraded: 0, unavailable: 0 },
  nodes: { total: 3, up: 3 },
  alerts: [],
} as unknown as Status;

const flow = { per_second: 600, bytes_per_second: 4096, latency: null };
const HISTORY = {
  ...{ from_ms: 0, until_ms: 300_000, step_seconds: 1, silent: [] },
  points: [{ at_ms: 299_000, reads: flow, writes: flow, others: flow, queue_depth: 1 }],
} as unknown as History;

/** The figures, where the history was read so long ago, and cannot be read any more. */
async function show(ago: number) {
  vi.stubGlobal('fetch', async () => new Response(null, { status: 503 }));
  const { queryKey } = historyQuery({ of: 'cluster' }, 300);
  queryClient.setQueryData(queryKey, HISTORY, { updatedAt: Date.now() - ago });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <Headline status={STATUS} alarms={0} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  await waitFor(() => expect(queryClient.getQueryState(queryKey)?.status).toBe('error'));
}

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('what hosts do is told as the present while it is, and as nothing only where that is known', async () => {
  await show(5_000);
  screen.getByText('1.2 k');
  screen.getByText('no read in the last second');
  cleanup();
  queryClient.clear();
  await show(11_000);
  await waitFor(() => expect(screen.queryByText('1.2 k')).toBeNull());
  expect(screen.getAllByText('–')).toHaveLength(4);
  expect(screen.queryByText('no read in the last second')).toBeNull();
});

test.each([
  [
    'the node does not answer any more',
    async () => {
      throw new TypeError('connection refused');
    },
  ],
  ['the node knows no more', async () => Response.json({ title: 'unavailable' }, { status: 503 })],
])('where %s nothing is said to be well', async (_, fetch) => {
  vi.stubGlobal('fetch', fetch);
  queryClient.setQueryData(clusterQuery.queryKey, {
    status: STATUS,
    explanation: { metadata: [], nodes: [], volumes: [] } as unknown as Explanation,
  });
  const { container } = render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <Headline status={STATUS} alarms={0} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  screen.getByText('The volume is served, with every copy in place.');
  await queryClient.refetchQueries({ queryKey: clusterQuery.queryKey });
  await screen.findByText('The volume was served, with every copy in place.');
  expect(container.querySelector('.tone-good')).toBeNull();
});
