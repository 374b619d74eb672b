import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen } from '@testing-library/react';
import type { ReactNode } from 'react';
import { afterEach, expect, test, vi } from 'vitest';
import { devicesQuery, deviceWorkQuery, queryClient } from '../api/queries';
import type { Device, Flow, Node } from '../api/types';
import { DeviceLine, DeviceWork } from '../pages/node-devices';
import { Capacity, Took } from '../pages/overview';
import { fillTip } from '../text/words';
import { NodeCard, NodeStrip } from './nodemap';

const DEVICE: Device = {
  number: 0,
  path: '/dev/sda',
  tier: 'flash',
  state: 'in-use',
  journal: true,
  bytes: 1000,
  used_bytes: 250,
  bad_blocks: 3,
};

const NODE = {
  name: 'alpha',
  state: 'up',
  standing: 'active',
  answers: true,
  replicas: 7,
  primaries: 2,
  failure_domain: 'rack 4',
  room: { bytes: 1000, used_bytes: 250 },
} as unknown as Node;

/** What has a digit, and explains itself to nobody. */
function unexplained(children: ReactNode): string[] {
  vi.stubGlobal('fetch', () => new Promise(() => {}));
  const { container } = render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>{children}</QueryClientProvider>
    </MantineProvider>,
  );
  const all = [...container.querySelectorAll('*:not(style)')].flatMap((element) => [
    ...element.childNodes,
  ]);
  const texts = all.filter((one) => one.nodeType === 3 && /\d/.test(one.textContent ?? ''));
  expect(texts.length).toBeGreaterThan(0);
  return texts
    .filter((one) => !one.parentElement?.closest('.explained, .figure'))
    .map((one) => one.textContent ?? '');
}

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('every number of a node, in the map and in the list, explains itself', () => {
  const devices = [DEVICE, { ...DEVICE, number: 1, path: '/dev/sdb' }];
  queryClient.setQueryData(devicesQuery('alpha').queryKey, { devices });
  expect(unexplained(<NodeCard node={NODE} ask />)).toEqual([]);
  expect(screen.getByRole('link').getAttribute('href')).toBe('/nodes/alpha');
  expect(screen.getAllByText('in use')).toHaveLength(2);
  cleanup();
  expect(unexplained(<NodeStrip nodes={[NODE]} />)).toEqual([]);
});

test('a device that is alone is on the map, and stays there as it was while its node is away', () => {
  vi.stubGlobal('fetch', () => new Promise(() => {}));
  queryClient.setQueryData(devicesQuery('alpha').queryKey, { devices: [DEVICE] });
  const away = { ...NODE, state: 'down', answers: false } as Node;
  const wrapped = (node: Node) => (
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <NodeCard node={node} ask />
      </QueryClientProvider>
    </MantineProvider>
  );
  const { rerender } = render(wrapped(NODE));
  screen.getByText('sda');
  expect(screen.queryByText(/devices as it told at/)).toBeNull();
  rerender(wrapped(away));
  screen.getByText('was in use');
  screen.getByText(/devices as it told at/);
  rerender(wrapped({ ...away, name: 'beta' }));
  screen.getByText('devices not known while it is away');
});

test('what a device does at present explains itself', () => {
  const latency = { mean_us: 100, p50_us: 90, p99_us: 800, p999_us: 900, max_us: 950 };
  const flow = { per_second: 1200, bytes_per_second: 4096, latency };
  const point = { at_ms: 20_000, reads: flow, writes: flow, others: flow, queue_depth: 2.5 };
  const history = { from_ms: 0, until_ms: 30_000, step_seconds: 10, points: [point], silent: [] };
  queryClient.setQueryData(deviceWorkQuery('alpha', 0).queryKey, history);
  const device = { ...DEVICE, latency_p99_us: 850 };
  expect(unexplained(<DeviceWork node="alpha" device={device} />)).toEqual([]);
  screen.getByText('2.4 k');
  screen.getByText('850 µs');
});

test('every number of a device explains itself, as what it is at present', () => {
  expect(unexplained(<DeviceLine node="alpha" device={DEVICE} order={() => {}} />)).toEqual([]);
  screen.getByText('3 bad blocks');
  expect(fillTip(DEVICE)).toMatch(/^Pages take 250.B of the 1000.B/);
  expect(fillTip({ ...DEVICE, state: 'draining' })).toMatch(/on it still/);
  expect(fillTip({ ...DEVICE, state: 'lost', is_absent: true })).toMatch(/are lacking/);
});

test('every number of the capacity explains itself', () => {
  const status = {
    pool: { bytes: 1000, used_bytes: 250 },
    promised_bytes: 3000,
    tiers: [{ tier: 'flash', devices: 3, room: { bytes: 900, used_bytes: 90 } }],
  };
  expect(unexplained(<Capacity status={status as never} />)).toEqual([]);
});

test('reads have a latency where nothing is written', () => {
  const took = { mean_us: 200, p50_us: 180, p99_us: 900, max_us: 1000 };
  const reads = { per_second: 10, bytes_per_second: 40_960, latency: took } as unknown as Flow;
  const writes = { per_second: 0, bytes_per_second: 0, latency: null } as unknown as Flow;
  expect(
    unexplained(
      <>
        <Took what="read" flow={reads} />
        <Took what="write" flow={writes} />
      </>,
    ),
  ).toEqual([]);
  screen.getByText('180 µs');
  screen.getByText('median; p99 900 µs');
  screen.getByText('no write in the last second');
});
