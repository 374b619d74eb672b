import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { queryClient } from '../api/queries';
import type { EventList } from '../api/types';
import { AlarmsPage } from './alarms';

class Silence extends EventTarget {
  close() {}
}

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('what happened is told where the alarms are not: nodes keep it, and the metadata may be away', async () => {
  vi.stubGlobal('EventSource', Silence);
  const log: EventList = {
    events: [
      {
        id: 'a-1',
        at_ms: 1_000,
        kind: 'node-lost',
        severity: 'warning',
        subject: 'node n2',
        detail: 'down',
      },
    ],
    silent: [],
  };
  vi.stubGlobal('fetch', async (request: Request) =>
    new URL(request.url).pathname === '/api/v1/events/log'
      ? Response.json(log)
      : Response.json(
          { title: 'unavailable', detail: 'the metadata is away', status: 503 },
          { status: 503 },
        ),
  );
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <AlarmsPage />
      </QueryClientProvider>
    </MantineProvider>,
  );
  await screen.findByText('node n2');
  expect((await screen.findAllByText('the metadata is away')).length).toBeGreaterThan(0);
});
