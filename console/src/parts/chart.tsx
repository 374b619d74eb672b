import 'uplot/dist/uPlot.min.css';
import { SegmentedControl, useComputedColorScheme } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useRef, useState } from 'react';
import uPlot from 'uplot';
import type { Subject } from '../api/history';
import { historyQuery } from '../api/queries';
import type { History, HistoryPoint } from '../api/types';
import { bytesPerSecond, count, latency, moment } from '../text/units';
import { Empty, Failure, Panel, Waiting } from './basic';

const HEIGHT = 150;

/** Steps of an axis in bytes: powers of two, so that its labels are whole. */
const BYTE_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);

/** Steps of an axis in microseconds: whole ones, for no length is told more exactly. */
const LATENCY_STEPS = Array.from({ length: 9 }, (_, power) =>
  [1, 2, 5].map((digit) => digit * 10 ** power),
).flat();

/** Spans that can be looked at: nodes keep seconds for an hour, 10 s for a day, 5 min for 30 days. */
const SPANS = [
  { value: '300', label: '5 min' },
  { value: '3600', label: '1 h' },
  { value: '86400', label: '24 h' },
  { value: '604800', label: '7 d' },
  { value: '2592000', label: '30 d' },
];

type Line = {
  name: string;
  color: 'reads' | 'writes';
  dashed?: boolean;
  of: (point: HistoryPoint) => number | null;
};

type Kind = {
  title: string;
  tip: string;
  unit: (value: number) => string;
  lines: Line[];
  steps?: number[];
};

const KINDS: Kind[] = [
  {
    title: 'IOPS',
    tip: 'Commands of hosts that were done in a second.',
    unit: count,
    lines: [
      { name: 'reads', color: 'reads', of: (point) => point.reads.per_second },
      { name: 'writes', color: 'writes', of: (point) => point.writes.per_second },
    ],
  },
  {
    title: 'Throughput',
    tip: 'Bytes that hosts read and wrote in a second.',
    unit: bytesPerSecond,
    steps: BYTE_STEPS,
    lines: [
      { name: 'reads', color: 'reads', of: (point) => point.reads.bytes_per_second },
      { name: 'writes', color: 'writes', of: (point) => point.writes.bytes_per_second },
    ],
  },
  {
    title: 'Latency, p99',
    tip: 'Of a hundred commands ninety-nine took no longer, from their arrival at a portal to their answer.',
    unit: latency,
    steps: LATENCY_STEPS,
    lines: [
      { name: 'reads', color: 'reads', of: (point) => point.reads.latency?.p99_us ?? null },
      { name: 'writes', color: 'writes', of: (point) => point.writes.latency?.p99_us ?? null },
    ],
  },
];

/** Charts of what hosts do with something. */
export function HistoryCharts({ subject }: { subject: Subject }) {
  const [seconds, setSeconds] = useState('300');
  const query = useQuery(historyQuery(subject, Number(seconds)));
  const { data, error } = query;
  return (
    <Panel
      title="Load"
      aside={
        data ? (
          <SegmentedControl
            size="xs"
            aria-label="Time span"
            data={SPANS}
            value={seconds}
            onChange={setSeconds}
          />
        ) : null
      }
    >
      {data === undefined ? (
        error ? (
          <Failure error={error} />
        ) : (
          <Waiting what="the history" />
        )
      ) : null}
      {data === null ? (
        <Empty title="No history from this node">
          It keeps none. Another node may be of a newer version.
        </Empty>
      ) : null}
      {data ? <Charts history={data} seconds={Number(seconds)} /> : null}
    </Panel>
  );
}

function Charts({ history, seconds }: { history: History; seconds: number }) {
  return (
    <>
      {history.silent.length > 0 ? (
        <p className="note">
          Without what {history.silent.join(', ')} measured: no answer from there.
        </p>
      ) : null}
      <div className="charts">
        {KINDS.map((kind) => (
          <Chart key={kind.title} kind={kind} history={history} seconds={seconds} />
        ))}
      </div>
    </>
  );
}

/** The points as columns, with gaps where nothing was measured. */
export function columns(history: History, lines: Pick<Line, 'of'>[]): uPlot.AlignedData {
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

function Chart({ kind, history, seconds }: { kind: Kind; history: History; seconds: number }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const scheme = useComputedColorScheme('light');
  const [at, setAt] = useState<number | null>(null);
  const data = useMemo(() => columns(history, kind.lines), [history, kind]);
  const latest = useRef({ data, until: history.until_ms });
  latest.current = { data, until: history.until_ms };

  // biome-ignore lint/correctness/useExhaustiveDependencies: colours are read from the style sheet, which goes by the scheme
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot(
      options(kind, element, () => latest.current.until / 1000, seconds, setAt),
      latest.current.data,
      element,
    );
    plot.current = made;
    const watcher = new ResizeObserver(() =>
      made.setSize({ width: element.clientWidth, height: HEIGHT }),
    );
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [kind, scheme, seconds]);

  useEffect(() => {
    plot.current?.setData(data);
  }, [data]);

  const shown = at ?? history.points.length - 1;
  const time = at === null ? null : data[0][at];
  return (
    <figure className="chart">
      <figcaption>
        <span className="chart-title" title={kind.tip}>
          {kind.title}
        </span>
        {kind.lines.map((line, index) => {
          const value = at === null ? lastOf(data[index + 1]) : data[index + 1]?.[shown];
          return (
            <span key={line.name} className="chart-value">
              <i className={`key key-${line.color}`} aria-hidden />
              {line.name} <b>{value == null ? '–' : kind.unit(value)}</b>
            </span>
          );
        })}
        {time == null ? null : <span className="chart-time">{moment(time * 1000)}</span>}
      </figcaption>
      <div ref={box} className="chart-box" role="img" aria-label={`${kind.title} over time`} />
      {history.points.length === 0 ? (
        <div className="chart-none">Nothing was measured in this time.</div>
      ) : null}
    </figure>
  );
}

/** The newest value, whatever line it belongs to; nothing if the newest step has none. */
function lastOf(column: ArrayLike<number | null | undefined> | undefined): number | null {
  return column && column.length > 0 ? (column[column.length - 1] ?? null) : null;
}

function options(
  kind: Kind,
  element: HTMLElement,
  until: () => number,
  seconds: number,
  onCursor: (index: number | null) => void,
): uPlot.Options {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(`--chart-${name}`).trim();
  const font = `11px ${style.getPropertyValue('font-family')}`;
  const axis = { stroke: colour('text'), font, ticks: { show: false } };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: false, y: false },
      points: { size: 6 },
      sync: { key: 'history' },
    },
    scales: {
      x: { time: true, range: () => [until() - seconds, until()] },
      y: { range: (_self, _low, high) => [0, Math.max(high ?? 0, 1) * 1.08] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 24,
        space: 70,
        values: (_self, splits) => splits.map((at) => tick(at, seconds)),
      },
      {
        ...axis,
        grid: { stroke: colour('grid'), width: 1 },
        size: 62,
        space: 34,
        ...(kind.steps ? { incrs: kind.steps } : {}),
        values: (_self, splits) => splits.map((value) => (value === 0 ? '0' : kind.unit(value))),
      },
    ],
    series: [
      {},
      ...kind.lines.map((line) => ({
        label: line.name,
        stroke: colour(line.color),
        fill: colour(`${line.color}-fill`),
        width: 1.5,
        points: { size: 4 },
      })),
    ],
    hooks: { setCursor: [(self) => onCursor(self.cursor.idx ?? null)] },
  };
}

/** A time on the axis: with seconds, minutes or the day, as the span is. */
function tick(at: number, seconds: number): string {
  const date = new Date(at * 1000);
  const two = (value: number) => String(value).padStart(2, '0');
  if (seconds > 2 * 86_400) return `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return seconds > 900 ? minutes : `${minutes}:${two(date.getSeconds())}`;
}

/** The newest step of a history, if it is new enough to be called the present. */
export function present(history: History | null | undefined): HistoryPoint | null {
  const last = history?.points.at(-1);
  if (!history || !last) return null;
  return history.until_ms - last.at_ms <= history.step_seconds * 1000 + 5_000 ? last : null;
}
