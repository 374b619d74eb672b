import { expect, test } from 'vitest';
import type { Flow, History } from '../api/types';
import {
  columns,
  doubles,
  doublesRange,
  gridLines,
  kinds,
  PERCENTILES,
  present,
  SPANS,
  singles,
  stepped,
  TICK_SPACE,
  TIME_STEPS,
  tick,
  ticks,
  type Whose,
} from './series';

const idle: Flow = { per_second: 0, bytes_per_second: 0, latency: null };

function history(times: number[], until = 10_000): History {
  const points = times.map((at_ms) => ({
    at_ms,
    reads: { ...idle, per_second: at_ms },
    writes: idle,
    others: idle,
    queue_depth: 0,
  }));
  return { from_ms: 0, until_ms: until, step_seconds: 1, silent: [], points };
}

const reads = [{ of: (point: History['points'][number]) => point.reads.per_second }];

test('steps that are left out are gaps, not lines across', () => {
  const [times, values] = columns(history([1000, 2000, 5000]), reads);
  expect(times).toEqual([1, 2, 3, 5]);
  expect(values).toEqual([1000, 2000, null, 5000]);
});

test('what is long ago is not the present', () => {
  expect(present(history([1000, 9000]))?.at_ms).toBe(9000);
  expect(present(history([1000]))).toBeNull();
  expect(present(history([]))).toBeNull();
  // The step that goes on may be told of when it has ended.
  const long = { ...history([10_000], 30_000), step_seconds: 10 };
  expect(present(long)?.at_ms).toBe(10_000);
  expect(present({ ...long, until_ms: 40_000 })).toBeNull();
  expect(present(null)).toBeNull();
});

/** A flow in which no number is twice. */
function flow(from: number): Flow {
  const latency = { mean_us: from, p50_us: from + 1, p99_us: from + 2, p999_us: from + 3 };
  return {
    per_second: from + 5,
    bytes_per_second: from + 6,
    latency: { ...latency, max_us: from + 4 },
  };
}

const measured: History['points'][number] = {
  at_ms: 0,
  reads: flow(100),
  writes: flow(200),
  others: flow(300),
  queue_depth: 1,
  fill: { used_bytes: 25, bytes: 100 },
  node: {
    sessions: 2,
    cache_hits_per_second: 3,
    cache_misses_per_second: 4,
    journal_used: 0.5,
    journal_used_max: 0.75,
    synced_bytes_per_second: 5,
  },
};

const drawn = (whose: Whose) =>
  new Set(
    PERCENTILES.flatMap(({ value }) => kinds(whose, value)).flatMap(({ lines }) =>
      lines.map((line) => line.of(measured)),
    ),
  );

test('whatever is measured is drawn', () => {
  const flows = [0, 1, 2, 3, 4, 5].flatMap((at) => [100 + at, 200 + at, 300 + at]);
  const moved = [106, 206];
  for (const whose of ['cluster', 'node'] as const) {
    expect([...flows, ...moved, 1, 2, 3, 4, 5, 0.5, 0.75, 0.25].filter(miss(whose))).toEqual([]);
  }
  for (const whose of ['device', 'tier'] as const) {
    expect([...flows, ...moved, 1, 0.25].filter(miss(whose))).toEqual([]);
  }
  for (const whose of ['volume', 'initiator', 'host'] as const) {
    expect([...flows, ...moved, 1].filter(miss(whose))).toEqual([]);
  }
});

function miss(whose: Whose) {
  const there = drawn(whose);
  return (value: number) => !there.has(value);
}

test('what has no medium, and no room of its own, has no chart of it', () => {
  expect(kinds('volume', 'p99_us').map(({ title }) => title)).not.toContain('Fill');
  expect(kinds('device', 'p99_us').map(({ title }) => title)).not.toContain('Cache');
});

test('all that is kept can be looked at, and the axis says of which time it is', () => {
  const longest = Math.max(...SPANS.map(({ value }) => Number(value)));
  // What nodes keep: docs/decisions/0050-performance-history.md.
  expect(longest).toBe(365 * 86_400);
  const at = new Date(2026, 2, 1, 14, 5, 9).getTime() / 1000;
  const told = SPANS.map(({ value }) => tick(at, Number(value)));
  expect(told).toEqual(['14:05:09', '14:05', '14:05', '03-01', '03-01', '2026-03-01']);
});

test('the axis of time has several labels for every span, and none is cut off', () => {
  // A third of a page of 1280 pixels, but for what stands beside what is drawn.
  const room = 259;
  for (const { value } of SPANS) {
    const seconds = Number(value);
    const step = TIME_STEPS.find((one) => (one / seconds) * room >= TICK_SPACE) ?? 0;
    const times = Array.from({ length: 20 }, (_, index) => index * step).filter(
      (at) => at <= seconds,
    );
    const told = ticks(times, seconds, room, (at) => (at / seconds) * room);
    expect(told.filter((one) => one !== null).length, value).toBeGreaterThan(1);
    // Half of a label of eight letters.
    for (const [index, at] of times.entries()) {
      if (told[index] != null) expect((at / seconds) * room + 25).toBeLessThanOrEqual(room);
    }
  }
});

test('no peak is above the topmost line of the grid', () => {
  expect(gridLines(8_100)).toEqual([0, 5_000, 10_000]);
  expect(gridLines(10_000)).toEqual([0, 5_000, 10_000]);
  expect(gridLines(0.3)).toEqual([0, 0.1, 0.2, 0.3].map((at) => expect.closeTo(at)));
  expect(gridLines(1)).toEqual([0, 0.5, 1]);
  const bytes = kinds('volume', 'p99_us').find(({ title }) => title === 'Throughput')?.steps;
  expect(gridLines(67 * 1024 ** 2, bytes)).toEqual([0, 32, 64, 96].map((mib) => mib * 1024 ** 2));
  for (let high = 1; high < 1e12; high *= 1.37) {
    const lines = gridLines(high);
    expect(lines.at(-1)).toBeGreaterThanOrEqual(high);
    expect(lines.length).toBeLessThanOrEqual(4);
    // The scale ends there, and has the same lines.
    expect(gridLines(lines.at(-1) ?? 0)).toEqual(lines);
  }
});

test('what was measured once is a point, for no line leads to it', () => {
  expect(singles([null, 3, null, 4, 5, null, 0])).toEqual([1, 6]);
  expect(singles([7])).toEqual([0]);
  expect(singles([1, 2])).toEqual([]);
  expect(singles(undefined)).toEqual([]);
});

test('a peak does not flatten what sizes commands have else', () => {
  const [low, high] = doublesRange(4096, 1024 ** 2);
  const lines = doubles(low, high);
  // What is least and what is most are within the edges.
  expect(low).toBe(2048);
  expect(high).toBe(2 * 1024 ** 2);
  expect(lines[0]).toBe(2048);
  expect(lines.length).toBeGreaterThan(2);
  expect(lines.length).toBeLessThanOrEqual(5);
  // Commands of 16 KiB are a quarter of the way up, and not a sixtieth.
  expect(Math.log2(16_384 / low) / Math.log2(high / low)).toBeGreaterThan(0.2);
  expect(doublesRange(4096, 4096)).toEqual([2048, 8192]);
  // A mean of rates that are rounded.
  expect(doublesRange(4095.9, 4096.1)).toEqual([2048, 8192]);
  expect(doublesRange(null, null)).toEqual([512, 2048]);
  expect(doubles(512, 2048)).toEqual([512, 1024, 2048]);
  const ofSize = kinds('volume', 'p99_us').find(({ title }) => title === 'Size of a command');
  expect(ofSize?.doubles).toBe(true);
});

test('the steps of a chart are gone through by keys, from the newest on', () => {
  const after = (...keys: string[]) =>
    keys.reduce<number | null>((at, key) => {
      const to = stepped(key, at, 30);
      return to === undefined ? at : to;
    }, null);
  expect(after('ArrowLeft')).toBe(29);
  expect(after('ArrowLeft', 'ArrowLeft', 'ArrowLeft', 'ArrowRight')).toBe(28);
  expect(after('ArrowRight', 'ArrowRight')).toBe(29);
  expect(after('Home', 'ArrowLeft')).toBe(0);
  expect(after('End', 'PageDown', 'PageDown', 'PageUp')).toBe(19);
  expect(after('Home', 'PageDown')).toBe(0);
  expect(after('Home', 'Escape')).toBeNull();
  expect(stepped('a', 3, 30)).toBeUndefined();
  expect(stepped('ArrowLeft', null, 0)).toBeUndefined();
});
