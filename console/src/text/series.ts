import type { Flow, History, HistoryPoint } from '../api/types';
import { bytes, bytesPerSecond, count, latency, percent } from './units';
import { COMMAND_SPAN } from './words';

/** What is drawn of a performance history: a table of charts, each with its lines, and which of them are drawn of what. */

/** What a history can be of. */
export type Whose = 'cluster' | 'node' | 'volume' | 'initiator' | 'host' | 'device' | 'tier';

export type Line = {
  name: string;
  color: 'first' | 'second' | 'third';
  of: (point: HistoryPoint) => number | null;
};

export type Kind = {
  title: string;
  tip: string;
  unit: (value: number) => string;
  lines: Line[];
  /** Distances of the lines of its grid, where those of ten would have crooked labels. */
  steps?: number[];
  /** What the scale reaches at least. */
  least?: number;
  /** Its scale doubles from line to line: what is mostly small, and large for a moment, is seen either way. */
  doubles?: boolean;
  /** Which percentile it is of can be chosen. */
  isLatency?: boolean;
};

/** Steps of an axis in bytes: powers of two, so that its labels are whole. */
const BYTE_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);

/** Steps of an axis in microseconds: whole ones, for no length is told more exactly. */
const LATENCY_STEPS = Array.from({ length: 9 }, (_, power) =>
  [1, 2, 5].map((digit) => digit * 10 ** power),
).flat();

/** What can be told of how long commands took. */
export type Percentile = keyof NonNullable<Flow['latency']>;

export const PERCENTILES: { value: Percentile; label: string; tip: string }[] = [
  { value: 'mean_us', label: 'mean', tip: 'The mean.' },
  { value: 'p50_us', label: 'median', tip: 'Half of them took no longer.' },
  { value: 'p99_us', label: 'p99', tip: 'Of a hundred, ninety-nine took no longer.' },
  { value: 'p999_us', label: 'p99.9', tip: 'Of a thousand, 999 took no longer.' },
  { value: 'max_us', label: 'max', tip: 'None took longer.' },
];

const perSecond = (value: number) => `${count(value)}/s`;
const fraction = (value: number) => percent(value, 1);
const size = ({ per_second, bytes_per_second }: Flow) =>
  per_second > 0 ? bytes_per_second / per_second : null;

/** Reads, writes, and what else there is, of one quantity. */
function flows(of: (flow: Flow) => number | null, others?: string): Line[] {
  return [
    { name: 'reads', color: 'first', of: (point) => of(point.reads) },
    { name: 'writes', color: 'second', of: (point) => of(point.writes) },
    ...(others
      ? [{ name: others, color: 'third' as const, of: (point: HistoryPoint) => of(point.others) }]
      : []),
  ];
}

/** Charts of what is asked of something: hosts' commands, or operations of devices. */
function load(isDevice: boolean, percentile: Percentile): Kind[] {
  const what = isDevice ? 'Operations of the medium' : 'Commands of hosts';
  const others = isDevice ? 'flushes' : 'others';
  const also = isDevice
    ? 'Beside reads and writes, flushes and discards.'
    : 'Others are UNMAP, VERIFY, SYNCHRONIZE CACHE and their kin.';
  const told = PERCENTILES.find(({ value }) => value === percentile);
  const span = isDevice ? 'From its start until its end.' : COMMAND_SPAN;
  return [
    {
      title: 'IOPS',
      tip: `${what} that were done in a second. ${also}`,
      unit: count,
      lines: flows((flow) => flow.per_second, others),
    },
    {
      title: 'Throughput',
      tip: 'Bytes that were read and written in a second.',
      unit: bytesPerSecond,
      steps: BYTE_STEPS,
      lines: flows((flow) => flow.bytes_per_second),
    },
    {
      title: 'Latency',
      tip: `How long ${isDevice ? 'operations' : 'commands'} took. ${told?.tip ?? ''} ${span}`,
      unit: latency,
      steps: LATENCY_STEPS,
      lines: flows((flow) => flow.latency?.[percentile] ?? null, others),
      isLatency: true,
    },
    {
      title: 'Queue depth',
      tip: `${what} that were under way at a time, as a mean.`,
      unit: count,
      lines: [{ name: 'under way', color: 'first', of: (point) => point.queue_depth }],
    },
    {
      title: isDevice ? 'Size of an operation' : 'Size of a command',
      tip: 'Bytes that each moved, as a mean: what was moved in a second, by how many there were. From line to line the grid goes by times, and not by so much more.',
      unit: bytes,
      doubles: true,
      lines: flows(size),
    },
  ];
}

const FILL: Kind = {
  title: 'Fill',
  tip: 'Pages that were taken, as a part of the room that there was.',
  unit: fraction,
  least: 1,
  lines: [
    {
      name: 'used',
      color: 'first',
      of: ({ fill }) => (fill && fill.bytes > 0 ? fill.used_bytes / fill.bytes : null),
    },
  ],
};

/** What only nodes are measured in. */
function inside(isCluster: boolean): Kind[] {
  return [
    {
      title: 'Sessions',
      tip: 'Sessions of initiators, as a mean.',
      unit: count,
      lines: [{ name: 'sessions', color: 'first', of: ({ node }) => node?.sessions ?? null }],
    },
    {
      title: 'Sync',
      tip: 'Bytes that were copied in a second to replicas that are being brought up to date.',
      unit: bytesPerSecond,
      steps: BYTE_STEPS,
      lines: [
        { name: 'copied', color: 'first', of: ({ node }) => node?.synced_bytes_per_second ?? null },
      ],
    },
    {
      title: 'Cache',
      tip: 'Blocks of 4 KiB that reads asked for in a second: hits were in memory, misses were not.',
      unit: perSecond,
      lines: [
        { name: 'hits', color: 'first', of: ({ node }) => node?.cache_hits_per_second ?? null },
        {
          name: 'misses',
          color: 'second',
          of: ({ node }) => node?.cache_misses_per_second ?? null,
        },
      ],
    },
    {
      title: 'Journal',
      tip: `How full the journal was${isCluster ? ', of the node where it was fullest' : ''}: as a mean, and at most. Writes wait when it is full.`,
      unit: fraction,
      least: 1,
      lines: [
        { name: 'mean', color: 'first', of: ({ node }) => node?.journal_used ?? null },
        { name: 'most', color: 'second', of: ({ node }) => node?.journal_used_max ?? null },
      ],
    },
  ];
}

/** The charts of a history; the first three are those that one looks at first. */
export function kinds(whose: Whose, percentile: Percentile): Kind[] {
  switch (whose) {
    case 'volume':
    case 'initiator':
    case 'host':
      return load(false, percentile);
    case 'device':
    case 'tier':
      return [...load(true, percentile), FILL];
    case 'cluster':
    case 'node':
      // A mean size of what all volumes are asked for together tells nothing.
      return [...load(false, percentile).slice(0, -1), ...inside(whose === 'cluster'), FILL];
  }
}

/** The points as columns (seconds, then a column for each line), with gaps where nothing was measured. */
export function columns(
  history: History,
  lines: Pick<Line, 'of'>[],
): [number[], ...(number | null)[][]] {
  const times: number[] = [];
  const values: (number | null)[][] = lines.map(() => []);
  let last: number | null = null;
  for (const point of history.points) {
    // A gap is longer than a step; of clocks a little is forgiven.
    if (last !== null && point.at_ms - last > history.step_seconds * 1500) {
      times.push((last + history.step_seconds * 1000) / 1000);
      for (const column of values) column.push(null);
    }
    last = point.at_ms;
    times.push(point.at_ms / 1000);
    for (const [index, line] of lines.entries()) values[index]?.push(line.of(point));
  }
  return [times, ...values];
}

/** The newest step of a history, if it is new enough to be called the present: of one that has only begun nothing may be known yet. */
export function present(history: History | null | undefined): HistoryPoint | null {
  const last = history?.points.at(-1);
  if (!history || !last) return null;
  return history.until_ms - last.at_ms <= history.step_seconds * 2_000 + 4_000 ? last : null;
}

/** Spans that can be looked at: nodes keep seconds for an hour, 10 s for a day, 5 min for 30 days, hours for a year. */
export const SPANS = [
  { value: '300', label: '5 min' },
  { value: '3600', label: '1 h' },
  { value: '86400', label: '24 h' },
  { value: '604800', label: '7 d' },
  { value: '2592000', label: '30 d' },
  { value: '31536000', label: '1 y' },
];

/** A time on the axis: with seconds, minutes, the day or the year, as the span is. */
export function tick(at: number, seconds: number): string {
  const date = new Date(at * 1000);
  const two = (value: number) => String(value).padStart(2, '0');
  const day = `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  if (seconds > 60 * 86_400) return `${date.getFullYear()}-${day}`;
  if (seconds > 2 * 86_400) return day;
  const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return seconds > 900 ? minutes : `${minutes}:${two(date.getSeconds())}`;
}

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Seconds between labels of the time axis; those of uPlot have none between a minute and five. */
export const TIME_STEPS = [
  ...[1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((many) => many * MINUTE),
  ...[1, 2, 3, 4, 6, 8, 12].map((many) => many * HOUR),
  ...[1, 2, 3, 5, 7, 10, 15, 30, 60, 90, 120, 180].map((many) => many * DAY),
];

/** Pixels from the start of a label to that of the next one, at least. */
export const TICK_SPACE = 64;
/** Pixels of half a label, at most: it stands in the middle of its time. */
const HALF_TICK = 30;

/** Labels of times; none for one that would be cut off at the end, `room` pixels from the start. `place` tells where a time is. */
export function ticks(
  times: number[],
  seconds: number,
  room: number,
  place: (at: number) => number,
): (string | null)[] {
  return times.map((at) => (place(at) + HALF_TICK > room ? null : tick(at, seconds)));
}

/** Distances of the lines of a grid where nothing else is said. */
const STEPS = Array.from({ length: 18 }, (_, power) =>
  [1, 2, 5].map((digit) => Number(`${digit}e${power - 3}`)),
).flat();

/** Lines of a grid at most, the one at nothing not counted: their labels need room. */
const LINES_MAX = 3;

/** Lines of a grid from nothing on, of which the last is at or above what there is at most. */
export function gridLines(high: number, steps: number[] = STEPS): number[] {
  const count = (step: number) => Math.max(1, Math.ceil(high / step - 1e-9));
  const step = steps.find((one) => count(one) <= LINES_MAX) ?? steps.at(-1) ?? 1;
  return Array.from({ length: count(step) + 1 }, (_, index) => index * step);
}

/** Which values of a line stand alone, with nothing before and after them: no line leads to them. */
export function singles(column: ArrayLike<number | null | undefined> | undefined): number[] {
  return Array.from(column ?? [], (_, index) => index).filter(
    (index) => column?.[index] != null && column[index - 1] == null && column[index + 1] == null,
  );
}

/** Lines of a grid that doubles, at most. */
const DOUBLES_MAX = 5;

/** What a scale that doubles reaches: powers of two around the values that there are, with half a doubling of room at least, so that all are seen. */
export function doublesRange(low: number | null, high: number | null): [number, number] {
  const least = low !== null && low > 0 ? Math.floor(Math.log2(low) - 0.5) : 9;
  const most = high !== null && high > 0 ? Math.ceil(Math.log2(high) + 0.5) : 0;
  return [2 ** least, 2 ** Math.max(most, least + 2)];
}

/** The lines of its grid: powers of two, each the same number of times the one before. */
export function doubles(low: number, high: number): number[] {
  const [from, to] = [Math.ceil(Math.log2(low)), Math.floor(Math.log2(high))];
  const step = Math.max(1, Math.ceil((to - from) / (DOUBLES_MAX - 1)));
  const found: number[] = [];
  for (let power = from; power <= to; power += step) found.push(2 ** power);
  return found;
}

/** Steps that a key goes over at a time. */
const STRIDE = 10;

/**
 * Which of so many steps is looked at after a key, `at` being the one before: none at first, and after Escape. Undefined for a key
 * that means nothing here.
 */
export function stepped(key: string, at: number | null, count: number): number | null | undefined {
  const last = count - 1;
  if (key === 'Escape') return null;
  if (last < 0) return undefined;
  // Who begins begins at the newest.
  const from = at ?? count;
  const to = {
    ArrowLeft: from - 1,
    ArrowRight: from + 1,
    PageUp: from + STRIDE,
    PageDown: from - STRIDE,
    Home: 0,
    End: last,
  }[key];
  return to === undefined ? undefined : Math.min(last, Math.max(0, to));
}
