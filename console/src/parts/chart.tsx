import 'uplot/dist/uPlot.min.css';
import { Button, SegmentedControl, useComputedColorScheme } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { type KeyboardEvent, type ReactNode, useEffect, useMemo, useRef, useState } from 'react';
import uPlot from 'uplot';
import { Unreached } from '../api/client';
import type { Subject } from '../api/history';
import { historyQuery } from '../api/queries';
import { recent } from '../api/recent';
import type { History } from '../api/types';
import {
  columns,
  doubles,
  doublesRange,
  gridLines,
  type Kind,
  kinds,
  PERCENTILES,
  type Percentile,
  present,
  SPANS,
  singles,
  stepped,
  TICK_SPACE,
  TIME_STEPS,
  ticks,
  type Whose,
} from '../text/series';
import { moment, span } from '../text/units';
import { Empty, Explained, Failure, Panel, Waiting } from './basic';

const HEIGHT = 150;
/** Pixels left of it, for what its lines mean. */
const AXIS = 62;
/** Pixels right of what is drawn, into which a label may reach. */
const RIGHT = 8;

const STEP_TIP =
  'So long is a step of the chart. What stands here is of the newest one, and differs from what is told of the last second or of a few.';

/** Charts that are drawn at once where there is more than them to look at. */
const BRIEF = 3;

type Props = {
  subject: Subject;
  title?: string;
  /** The first ones only, until more are asked for. */
  brief?: boolean;
  /** Among the time spans, what else can be chosen. */
  tools?: ReactNode;
  /** In a panel of its own, unless it is within one. */
  within?: boolean;
};

/** Charts of what is done with something, and of what it holds. */
export function HistoryCharts({ subject, title = 'Load', brief = false, tools, within }: Props) {
  const [seconds, setSeconds] = useState('300');
  const [all, setAll] = useState(!brief);
  const query = useQuery(historyQuery(subject, Number(seconds)));
  const { data, error } = query;
  const choice = (
    <>
      {tools}
      {brief && data !== null ? (
        <Button variant="default" size="compact-xs" onClick={() => setAll(!all)}>
          {all ? 'Fewer charts' : 'More charts'}
        </Button>
      ) : null}
      {data !== null ? (
        <SegmentedControl
          size="xs"
          aria-label="Time span"
          data={SPANS}
          value={seconds}
          onChange={setSeconds}
        />
      ) : null}
    </>
  );
  const shown = (
    <>
      {/* That the node does not answer is said once, above every page. */}
      {error && !(data && error instanceof Unreached) ? <Failure error={error} /> : null}
      {data === undefined && !error ? <Waiting what="the history" /> : null}
      {data === null ? (
        <Empty title="No history from this node">
          It keeps none. Another node may be of a newer version.
        </Empty>
      ) : null}
      {data ? (
        <Charts
          whose={subject.of}
          history={data}
          isPresent={present(recent(query)) !== null}
          seconds={Number(seconds)}
          all={all}
        />
      ) : null}
    </>
  );
  return within ? (
    <section className="charts-within" aria-label={title}>
      <div className="charts-choice">{choice}</div>
      {shown}
    </section>
  ) : (
    <Panel title={title} aside={choice}>
      {shown}
    </Panel>
  );
}

type ChartsProps = Omit<ChartProps, 'kind' | 'children'> & { whose: Whose; all: boolean };

function Charts({ whose, history, isPresent, seconds, all }: ChartsProps) {
  const [percentile, setPercentile] = useState<Percentile>('p99_us');
  const drawn = useMemo(() => kinds(whose, percentile), [whose, percentile]);
  if (history.points.length === 0) {
    return (
      <Empty title="Nothing is known of this time">
        {history.silent.length > 0
          ? `What ${history.silent.join(', ')} measured is told when there is an answer from there.`
          : 'Nothing was measured in it.'}
      </Empty>
    );
  }
  return (
    <>
      {history.silent.length > 0 ? (
        <p className="note">
          Without what {history.silent.join(', ')} measured: no answer from there.
        </p>
      ) : null}
      <div className="charts">
        {(all ? drawn : drawn.slice(0, BRIEF)).map((kind) => (
          <Chart
            key={kind.title}
            kind={kind}
            history={history}
            isPresent={isPresent}
            seconds={seconds}
          >
            {kind.isLatency ? (
              <select
                className="chart-choice"
                aria-label="Which latency"
                value={percentile}
                onChange={(event) => setPercentile(event.currentTarget.value as Percentile)}
              >
                {PERCENTILES.map(({ value, label }) => (
                  <option key={value} value={value}>
                    {label}
                  </option>
                ))}
              </select>
            ) : null}
          </Chart>
        ))}
      </div>
    </>
  );
}

type ChartProps = {
  kind: Kind;
  history: History;
  /** Whether its newest step is the present, as figures beside it have it. */
  isPresent: boolean;
  seconds: number;
  children?: ReactNode;
};

function Chart({ kind, history, isPresent, seconds, children }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const scheme = useComputedColorScheme('light');
  const [at, setAt] = useState<number | null>(null);
  const [spoken, setSpoken] = useState<{ place: number; text: string } | null>(null);
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

  const time = at === null ? null : data[0][at];
  /** The values of a step, or those of the present. */
  const told = (step: number | null) =>
    kind.lines.map((line, index) => {
      const column = data[index + 1];
      const value = step !== null ? column?.[step] : isPresent ? lastOf(column) : null;
      return { line, text: value == null ? '–' : kind.unit(value) };
    });
  /** What is spoken of a step, and where it stands in the span. A chart that is drawn anew each second speaks only when a key is pressed. */
  const speak = (to: number | null) => {
    const at = to === null ? undefined : data[0][to];
    const values = told(to).map(({ line, text }) => `${line.name} ${text}`);
    setSpoken({
      place: at === undefined ? seconds : Math.round(at - (history.until_ms / 1000 - seconds)),
      text: `${at === undefined ? 'now' : moment(at * 1000)}: ${values.join(', ')}`,
    });
  };
  /** By keys as by the pointer: the line in the picture goes along. */
  const look = (to: number | null) => {
    const left = to === null ? -10 : (plot.current?.valToPos(data[0][to] ?? 0, 'x') ?? -10);
    plot.current?.setCursor({ left, top: to === null ? -10 : 0 });
    setAt(to);
  };
  const press = (event: KeyboardEvent) => {
    const to = stepped(event.key, at, data[0].length);
    if (to === undefined) return;
    event.preventDefault();
    look(to);
    speak(to);
  };
  return (
    <figure className="chart">
      <figcaption>
        <Explained tip={kind.tip} className="chart-title">
          {kind.title}
        </Explained>
        {children}
        {time != null ? (
          <span className="chart-time">{moment(time * 1000)}</span>
        ) : isPresent && history.step_seconds > 1 ? (
          <Explained tip={STEP_TIP} className="chart-time">
            over {span(history.step_seconds)}
          </Explained>
        ) : null}
        <span className={`chart-legend ${kind.lines.length > 1 ? 'chart-legend-long' : ''}`}>
          {told(at).map(({ line, text }) => (
            <span key={line.name} className="chart-value">
              <i className={`key key-${line.color}`} aria-hidden />
              {line.name} <b>{text}</b>
            </span>
          ))}
        </span>
      </figcaption>
      <div
        ref={box}
        className="chart-box"
        role="slider"
        tabIndex={0}
        aria-label={`${kind.title} over time`}
        aria-valuemin={0}
        aria-valuemax={seconds}
        aria-valuenow={spoken?.place ?? seconds}
        aria-valuetext={spoken?.text ?? 'now'}
        onKeyDown={press}
        onFocus={() => speak(null)}
        onBlur={() => {
          look(null);
          setSpoken(null);
        }}
      />
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
  const lines = (high: number | null) =>
    gridLines(Math.max(high ?? 0, kind.least ?? 1), kind.steps);
  const axis = { stroke: colour('text'), font, ticks: { show: false } };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    padding: [8, RIGHT, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: false, y: false },
      points: { size: 6 },
      sync: { key: 'history' },
    },
    scales: {
      x: { time: true, range: () => [until() - seconds, until()] },
      y: kind.doubles
        ? { distr: 3, log: 2, range: (_self, low, high) => doublesRange(low, high) }
        : { range: (_self, _low, high) => [0, lines(high).at(-1) ?? 1] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 24,
        space: TICK_SPACE,
        incrs: TIME_STEPS,
        values: (self, splits) =>
          ticks(splits, seconds, self.width - AXIS, (at) => self.valToPos(at, 'x')),
      },
      {
        ...axis,
        grid: { stroke: colour('grid'), width: 1 },
        size: AXIS,
        space: 34,
        ...(kind.steps ? { incrs: kind.steps } : {}),
        ...(kind.doubles
          ? {
              splits: (_self: uPlot, _axis: number, low: number, high: number) =>
                doubles(low, high),
              filter: (_self: uPlot, splits: number[]) => splits,
            }
          : { splits: (_self: uPlot, _axis: number, _low: number, high: number) => lines(high) }),
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
        points: {
          size: 4,
          fill: colour(line.color),
          filter: (self: uPlot, index: number, all: boolean) =>
            all ? null : singles(self.data[index]),
        },
      })),
    ],
    hooks: { setCursor: [(self) => onCursor(self.cursor.idx ?? null)] },
  };
}
