import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen } from '@testing-library/react';
import type { ReactNode } from 'react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { queryClient } from '../api/queries';
import type { Volume } from '../api/types';
import { Facts, VolumePage } from './volume';
import { ScrubPanel } from './volume-scrub';

const MIB = 1024 ** 2;
const NOTHING = {
  bytes_read: 0,
  bad_blocks: 0,
  differing_blocks: 0,
  doubtful_blocks: 0,
  unmended_blocks: 0,
  skipped_blocks: 0,
};

const volume = (over: Partial<Volume> = {}): Volume => ({
  name: 'db',
  bytes: 1024 * MIB,
  policy: 'mirror2',
  health: 'healthy',
  slices: [{ index: 0, epoch: 1, primary: 'n1', in_sync: ['n1', 'n2'], joining: [] }],
  resync: { bytes_moved: 313 * MIB },
  ...over,
});

const scrubbed = (round: number, findings: Partial<typeof NOTHING> = {}): Volume =>
  volume({
    scrub: {
      last: {
        round,
        began_seconds: 70,
        ended_seconds: 80,
        findings: { ...NOTHING, ...findings },
      },
    },
  });

function shown(children: ReactNode) {
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>{children}</QueryClientProvider>
    </MantineProvider>,
  );
}

beforeEach(() => {
  vi.stubGlobal('fetch', () => new Promise(() => {}));
});

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('a volume of which nothing was read is not said to be sound', () => {
  shown(<ScrubPanel volume={volume()} />);
  screen.getByText('Not scrubbed yet');
  cleanup();
  // A new volume is scrubbed as soon as it is there.
  shown(<ScrubPanel volume={scrubbed(1)} />);
  screen.getByText('There was nothing to read');
  expect(screen.queryByText(/every block is sound/)).toBeNull();
  cleanup();
  shown(<ScrubPanel volume={scrubbed(2)} />);
  screen.getByText('There was nothing to read');
  cleanup();
  const run = { round: 2, began_seconds: 90, slices_done: 0, findings: NOTHING };
  shown(<ScrubPanel volume={{ ...scrubbed(1), scrub: { running: run } }} />);
  screen.getByText(/Under way since/);
  expect(screen.queryByText(/every block is sound/)).toBeNull();
});

test('what was read and was sound is said to be, and what could not be compared is told', () => {
  shown(<ScrubPanel volume={scrubbed(2, { bytes_read: MIB })} />);
  screen.getByText(/1.MiB read: every block is sound/);
  cleanup();
  shown(<ScrubPanel volume={scrubbed(1, { skipped_blocks: 3 })} />);
  screen.getByText(/3 blocks of 4 KiB/);
});

test('what syncs have copied is told with the copies, and not where what is left is told', async () => {
  shown(<Facts volume={volume()} />);
  expect(screen.queryByText(/copied/)).toBeNull();
  cleanup();
  const work = { replicas: 1, bytes: 5 * MIB, bytes_per_second: MIB, seconds_left: 5 };
  shown(<Facts volume={volume({ resync: { bytes_moved: 313 * MIB, work } })} />);
  screen.getByText(/5.MiB to copy/);
  expect(screen.queryByText(/313/)).toBeNull();
  cleanup();
  vi.stubGlobal('fetch', async ({ url }: Request) =>
    new URL(url).pathname === '/api/v1/volumes/db'
      ? Response.json(volume())
      : new Response(null, { status: 503 }),
  );
  shown(<VolumePage name="db" part="copies" />);
  await screen.findByText(/at least 313.MiB copied since it was made/);
});
