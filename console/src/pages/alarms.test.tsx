import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
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

test('what a kind of alarm means is told, and a limit that is none where it is typed', async () => {
  vi.stubGlobal('EventSource', Silence);
  const kind = {
    kind: 'pool-low',
    title: 'A node has little room left',
    severity: 'warning',
    unit: 'percent',
    threshold: { set: 85, clear: 83, hold_seconds: 60 },
    off: false,
    meaning: 'Little room is left.',
    action: 'Look.',
  };
  vi.stubGlobal('fetch', async (request: Request) => {
    const path = new URL(request.url).pathname;
    if (path === '/api/v1/alarm-kinds') return Response.json({ kinds: [kind] });
    if (path === '/api/v1/session') return Response.json({ name: 'ada', role: 'administrator' });
    return new Response(null, { status: 503 });
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <AlarmsPage />
      </QueryClientProvider>
    </MantineProvider>,
  );
  fireEvent.focus(await screen.findByText(kind.title));
  expect((await screen.findByRole('tooltip')).textContent).toBe('Little room is left. Look.');
  fireEvent.click(await screen.findByRole('button', { name: `Change ${kind.title}` }));
  const set = await screen.findByLabelText(/^Raised at/);
  expect(set.getAttribute('aria-invalid')).toBeNull();
  fireEvent.change(set, { target: { value: '85 %' } });
  expect(set.getAttribute('aria-invalid')).toBe('true');
  screen.getByText(/a whole number/);
});
