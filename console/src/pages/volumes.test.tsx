import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen, waitFor } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { queryClient, trafficQuery } from '../api/queries';
import type { Flow, Traffic, VolumeSummary } from '../api/types';
import { VolumesPage } from './volumes';

const VOLUME = {
  ...{ name: 'db', health: 'healthy', policy: 'mirror2', bytes: 1000, used_bytes: 0 },
  ...{ sessions: 1, target: 'iqn.x', lun: 0 },
} as VolumeSummary;

const latency = { mean_us: 200, p50_us: 180, p99_us: 900, p999_us: 950, max_us: 1000 };
const flow: Flow = { per_second: 1234, bytes_per_second: 4096, latency };
const TRAFFIC = {
  volumes: [{ volume: 'db', reads: flow, writes: flow, all: flow }],
  silent: [],
} as unknown as Traffic;

const refusal = { title: 'busy', detail: 'not now', status: 503 };

/** The page, where traffic was read so long ago, if it was, and cannot be read any more. */
function show(ago: number | null) {
  if (ago !== null) {
    queryClient.setQueryData(trafficQuery.queryKey, TRAFFIC, { updatedAt: Date.now() - ago });
  }
  vi.stubGlobal('fetch', async (request: Request) =>
    new URL(request.url).pathname === '/api/v1/volumes'
      ? Response.json({ volumes: [VOLUME] })
      : Response.json(refusal, { status: 503 }),
  );
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <VolumesPage />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

/** What the table says of IOPS, throughput and p99. */
async function done(): Promise<(string | null)[]> {
  const row = await screen.findByRole('row', { name: /db/ });
  return [...row.querySelectorAll('td')].slice(5, 8).map((cell) => cell.textContent);
}

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('what hosts do is as it was for some seconds where it cannot be read any more, which is said', async () => {
  show(5_000);
  await screen.findByText('not now');
  expect((await done())[0]).toBe('1.23\u00a0k');
});

test('what hosts did before that is not told as the present', async () => {
  show(11_000);
  await screen.findByText('not now');
  await waitFor(async () => expect(await done()).toEqual(['–', '–', '–']));
});

test('what could never be read is not known, and why is said', async () => {
  show(null);
  await screen.findByText('not now');
  expect(await done()).toEqual(['–', '–', '–']);
});
