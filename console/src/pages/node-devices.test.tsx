import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { deviceWorkQuery, queryClient } from '../api/queries';
import type { Device, History } from '../api/types';
import { DeviceWork, RemoveDialog } from './node-devices';

const device: Device = {
  ...{ number: 2, path: '/dev/sdb', tier: 'flash', state: 'drained' },
  ...{ journal: false, bytes: 1000, used_bytes: 0 },
};

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

function show(of: Device): unknown[] {
  const sent: unknown[] = [];
  vi.stubGlobal('fetch', async (request: Request) => {
    sent.push(await request.json());
    return Response.json({ devices: [] });
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <RemoveDialog node="n1" device={of} onClose={() => {}} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return sent;
}

test('a device is removed when its path has been typed', async () => {
  const sent = show(device);
  const remove = () => screen.getByRole<HTMLButtonElement>('button', { name: 'Remove device' });
  const type = (value: string) =>
    fireEvent.change(screen.getByRole('textbox'), { target: { value } });
  expect(remove().disabled).toBe(true);
  type('/dev/sda');
  expect(remove().disabled).toBe(true);
  type('/dev/sdb');
  fireEvent.click(remove());
  await waitFor(() => expect(sent).toEqual([{ order: 'remove', device: 2 }]));
  cleanup();
  // One that was not there when the node started has no path.
  show({ ...device, path: '' });
  type('device 2');
  expect(remove().disabled).toBe(false);
});

test('what a device did before it could not be read any more is not told as the present', async () => {
  const flow = { per_second: 1200, bytes_per_second: 4096, latency: null };
  const point = { at_ms: 20_000, reads: flow, writes: flow, others: flow, queue_depth: 2.5 };
  vi.stubGlobal('fetch', async () =>
    Response.json({ title: 'busy', detail: 'not now', status: 503 }, { status: 503 }),
  );
  const read = (ago: number) => {
    cleanup();
    queryClient.clear();
    const { queryKey } = deviceWorkQuery('n1', 2);
    const history = { points: [point] } as unknown as History;
    queryClient.setQueryData(queryKey, history, { updatedAt: Date.now() - ago });
    render(
      <MantineProvider env="test">
        <QueryClientProvider client={queryClient}>
          <DeviceWork node="n1" device={device} />
        </QueryClientProvider>
      </MantineProvider>,
    );
    return waitFor(() => expect(queryClient.getQueryState(queryKey)?.status).toBe('error'));
  };
  await read(5_000);
  screen.getByText('2.4 k');
  await read(11_000);
  await screen.findByText('work not known');
  expect(screen.queryByText('2.4 k')).toBeNull();
});

test('what does nothing takes no time', () => {
  vi.stubGlobal('fetch', () => new Promise(() => {}));
  const shown = (per_second: number) => {
    cleanup();
    const flow = { per_second, bytes_per_second: 0, latency: null };
    const point = { at_ms: 20_000, reads: flow, writes: flow, others: flow, queue_depth: 0 };
    const history = { points: [point] } as unknown as History;
    queryClient.setQueryData(deviceWorkQuery('n1', 2).queryKey, history);
    render(
      <MantineProvider env="test">
        <QueryClientProvider client={queryClient}>
          <DeviceWork node="n1" device={{ ...device, latency_p99_us: 3_580 }} />
        </QueryClientProvider>
      </MantineProvider>,
    );
    return screen.getByText(/^p99/).textContent;
  };
  expect(shown(1)).toBe('p99 3.58\u00a0ms');
  // It is of the last minute, and of what was done before it was drained.
  expect(shown(0)).toBe('p99 –');
});
