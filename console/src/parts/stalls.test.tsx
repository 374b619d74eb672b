import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { queryClient } from '../api/queries';
import type { Stall } from '../api/types';
import { StallTable } from './stalls';

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

function show(next: string | null) {
  const stall: Stall = {
    volume: 'db',
    portal: 'n1',
    began_ms: 1_000,
    length_ms: 200,
    waiting_max: 3,
    served: true,
    lasting: false,
    cause: 'lease',
  };
  vi.stubGlobal('fetch', async () => Response.json({ stalls: [stall], silent: [], next }));
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <StallTable />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

test('that there are more stalls than are shown is said', async () => {
  show('cursor');
  await screen.findByText(/the newest 200/);
  cleanup();
  queryClient.clear();
  show(null);
  await screen.findByText('a lease');
  expect(screen.queryByText(/the newest 200/)).toBeNull();
});
