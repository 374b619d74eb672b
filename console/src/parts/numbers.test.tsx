import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor, within } from '@testing-library/react';
import type { ReactNode } from 'react';
import { afterEach, expect, test, vi } from 'vitest';
import {
  alarmsQuery,
  auditQuery,
  devicesQuery,
  deviceWorkQuery,
  queryClient,
  sessionQuery,
  settingsQuery,
  volumesQuery,
} from '../api/queries';
import type { Alarm, Device, Finding, Flow, Identity, Node, Slice, Volume } from '../api/types';
import { AlarmsPage } from '../pages/alarms';
import { AuditPage } from '../pages/audit';
import { DeviceLine, DeviceWork } from '../pages/node-devices';
import { Capacity, Took } from '../pages/overview';
import { ScrubPanel } from '../pages/volume-scrub';
import { CheckStep } from '../pages/wizard';
import { fillTip } from '../text/words';
import { FindingDetails } from './attention';
import { NodeCard, NodeStrip } from './nodemap';
import { SliceMap } from './slicemap';

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
  work_per_second: 1200,
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
  return (
    texts
      // A picture is one thing to come to by keyboard, and its parts are explained to the pointer.
      .filter((one) => !one.parentElement?.closest('.explained, .figure, [role=img] [title]'))
      .map((one) => one.textContent ?? '')
  );
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
  expect(screen.getAllByText('flash')).toHaveLength(2);
  screen.getByText('work 1.2 k/s');
  expect(screen.queryByText('its devices are on its page')).toBeNull();
  cleanup();
  // Of too many nodes to be asked for their devices, whatever is known of one.
  expect(unexplained(<NodeCard node={NODE} ask={false} />)).toEqual([]);
  screen.getByText('its devices are on its page');
  expect(screen.queryByText(/in use/)).toBeNull();
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

test('of what a node uses it is told how that comes to be more than what its devices do', async () => {
  const room = { bytes: 1000, used_bytes: 300 };
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <NodeCard node={{ ...NODE, room }} ask={false} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  fireEvent.focus(screen.getByText('300 B'));
  expect((await screen.findByRole('tooltip')).textContent).toMatch(
    /set aside for writes under way/,
  );
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

const SLICE: Slice = {
  ...{ index: 0, epoch: 5, primary: 'alpha', served: true },
  ...{ in_sync: ['alpha'], joining: [], absent: [{ node: 'beta', bytes_lacking: 4096 }] },
};

test('every number of a scrub explains itself', () => {
  const none = { bytes_read: 0, bad_blocks: 0, differing_blocks: 0 };
  const nothing = { ...none, doubtful_blocks: 0, unmended_blocks: 0, skipped_blocks: 0 };
  const times = { began_seconds: 1000, ended_seconds: 2000 };
  const volume = { name: 'db', slices: [SLICE, { ...SLICE, index: 1 }] };
  const show = (scrub: Volume['scrub']) => {
    cleanup();
    const settings = { scrub_interval_seconds: 604_800 };
    queryClient.setQueryData(settingsQuery.queryKey, settings as never);
    return unexplained(<ScrubPanel volume={{ ...volume, scrub } as unknown as Volume} />);
  };
  const found = { ...nothing, bytes_read: 8192, bad_blocks: 1 };
  const running = { ...times, round: 3, slices_done: 1, bytes_left: 4096, bytes_per_second: 1024 };
  const under = { ...running, seconds_left: 4, findings: found };
  expect(show({ running: under, last: null })).toEqual([]);
  screen.getByText(/^1 of 2 slices/);
  screen.getByText('1 block of 4 KiB');
  expect(show({ last: { ...times, round: 2, findings: found } })).toEqual([]);
  const clean = { ...nothing, bytes_read: 8192 };
  expect(show({ last: { ...times, round: 2, findings: clean } })).toEqual([]);
  expect(show({ last: { ...times, round: 2, findings: nothing } })).toEqual([]);
});

test('what is left of the work that a finding waits for explains itself', () => {
  const work = { replicas: 1, bytes: 8192, bytes_per_second: 1024, seconds_left: 8 };
  const finding = { waits_for: [], remedies: [], work } as unknown as Finding;
  expect(unexplained(<FindingDetails finding={finding} />)).toEqual([]);
});

test('every number of a volume that is to be made explains itself', () => {
  const draft = { name: 'db', size: '1 GiB', policy: 'mirror2', everybody: true } as const;
  const rest = { initiators: [], target: 'iqn.example:db', lun: '7' };
  queryClient.setQueryData(volumesQuery.queryKey, { volumes: [] } as never);
  expect(unexplained(<CheckStep draft={{ ...draft, ...rest }} status={undefined} />)).toEqual([]);
});

test('every number of the slices explains itself, in the picture, too', () => {
  const slices = Array.from({ length: 600 }, (_, index) => ({ ...SLICE, index }));
  expect(unexplained(<SliceMap slices={slices} />)).toEqual([]);
  screen.getByText('512 of 600 slices');
});

/** Heads of a table over what has a digit, and that explain neither that nor themselves. */
async function unexplainedHeads(table: HTMLElement): Promise<(string | null)[]> {
  const cells = within(table).getAllByRole('cell');
  const heads = within(table).getAllByRole('columnheader');
  const found: (string | null)[] = [];
  for (const [at, head] of heads.entries()) {
    const button = within(head).getByRole('button');
    const bare = cells[at]?.cloneNode(true) as HTMLElement;
    for (const one of bare.querySelectorAll('.explained')) one.remove();
    if (!/\d/.test(bare.textContent ?? '')) continue;
    fireEvent.focus(button);
    if (!screen.queryByRole('tooltip')) found.push(head.textContent);
    fireEvent.blur(button);
    await waitFor(() => expect(screen.queryByRole('tooltip')).toBeNull());
  }
  return found;
}

test('every column of numbers in lists of what was done, and of alarms, explains itself', async () => {
  class Silence extends EventTarget {
    close() {}
  }
  vi.stubGlobal('EventSource', Silence);
  vi.stubGlobal('fetch', () => new Promise(() => {}));
  const show = (page: ReactNode) =>
    render(
      <MantineProvider env="test">
        <QueryClientProvider client={queryClient}>{page}</QueryClientProvider>
      </MantineProvider>,
    );
  const who = { kind: 'user', name: 'ada', role: 'administrator', scope: 'everything' };
  queryClient.setQueryData(sessionQuery.queryKey, who as Identity);
  const entry = {
    ...{ number: 1, at_ms: 1000, who: 'user ada', method: 'POST', path: '/api/v1/volumes' },
    ...{ status: 201, from: '192.0.2.1', node: 'alpha' },
  };
  queryClient.setQueryData(auditQuery.queryKey, { entries: [entry], silent: [] } as never);
  show(<AuditPage />);
  expect(await unexplainedHeads(await screen.findByRole('table'))).toEqual([]);
  cleanup();
  const alarm = {
    ...{ id: 7, kind: 'clock-skew', severity: 'warning', subject: 'node alpha' },
    ...{ title: 'Clocks differ', detail: 'by 2 s', meaning: '', action: '' },
    ...{ raised_ms: 1000, cleared_ms: 2000 },
  } as Alarm;
  queryClient.setQueryData(alarmsQuery.queryKey, { alarms: [alarm] } as never);
  show(<AlarmsPage />);
  const over = await screen.findByRole('region', { name: 'Alarms that are over' });
  expect(await unexplainedHeads(over)).toEqual([]);
});
