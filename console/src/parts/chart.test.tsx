import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { historyQuery, queryClient } from '../api/queries';
import type { Flow, History } from '../api/types';
import { HistoryCharts } from './chart';

/** Nothing is drawn: what is tested is what stands around it. */
vi.mock('uplot', () => ({
  default: class {
    setData() {}
    setSize() {}
    setCursor() {}
    destroy() {}
    valToPos() {
      return 0;
    }
  },
}));

const SUBJECT = { of: 'cluster' } as const;
const idle: Flow = { per_second: 0, bytes_per_second: 0, latency: null };

/** Steps of a second until then; in each as many reads as its second counts. */
function until(end: number, step = 1): History {
  const points = Array.from({ length: 10 }, (_, index) => ({
    at_ms: (end - (9 - index) * step) * 1000,
    reads: { ...idle, per_second: end - 9 + index },
    writes: idle,
    others: idle,
    queue_depth: 0,
  }));
  return { from_ms: 0, until_ms: end * 1000, step_seconds: step, silent: [], points };
}

/** Has it drawn, too. */
async function tell(end: number, history = until(end)) {
  const { queryKey } = historyQuery(SUBJECT, 300);
  await act(async () => {
    queryClient.setQueryData(queryKey, history);
    await new Promise((resolve) => setTimeout(resolve, 20));
  });
}

const show = () =>
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <HistoryCharts subject={SUBJECT} />
      </QueryClientProvider>
    </MantineProvider>,
  );

beforeEach(() => {
  vi.stubGlobal('fetch', () => new Promise(() => {}));
  vi.stubGlobal(
    'ResizeObserver',
    class {
      observe() {}
      unobserve() {}
      disconnect() {}
    },
  );
});

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('a chart speaks when one comes to it and when a key is pressed, and not when it is drawn anew', async () => {
  await tell(500);
  show();
  const chart = screen.getByRole('slider', { name: 'IOPS over time' });
  const spoken = () => ['text', 'now', 'max'].map((it) => chart.getAttribute(`aria-value${it}`));
  const rest = ['now', '300', '300'];
  expect(spoken()).toEqual(rest);
  await tell(501);
  expect(spoken()).toEqual(rest);
  fireEvent.focus(chart);
  expect(spoken()[0]).toBe('now: reads 501, writes 0, others 0');
  await tell(502);
  screen.getByText('502');
  expect(spoken()[0]).toBe('now: reads 501, writes 0, others 0');
  fireEvent.keyDown(chart, { key: 'ArrowLeft' });
  fireEvent.keyDown(chart, { key: 'ArrowLeft' });
  const stepped = spoken();
  expect(stepped[0]).toMatch(/\d\d:\d\d:\d\d: reads 501,/);
  expect(stepped[1]).toBe('299');
  await tell(503);
  expect(spoken()).toEqual(stepped);
  fireEvent.blur(chart);
  expect(spoken()).toEqual(rest);
});

test('the lines of a chart stand together, apart from its title, what can be chosen and the time', async () => {
  await tell(500);
  show();
  const legend = (title: string, lines: number) => {
    const chart = screen.getByRole('slider', { name: `${title} over time` });
    fireEvent.keyDown(chart, { key: 'End' });
    const parts = [...(chart.parentElement?.querySelector('figcaption')?.children ?? [])];
    expect(parts.at(-1)?.querySelectorAll('.chart-value')).toHaveLength(lines);
    return parts.map((part) => [...part.classList].filter((name) => name.startsWith('chart-')));
  };
  const long = ['chart-legend', 'chart-legend-long'];
  expect(legend('Latency', 3)).toEqual([['chart-title'], ['chart-choice'], ['chart-time'], long]);
  // One line has room beside the title.
  expect(legend('Queue depth', 1)).toEqual([['chart-title'], ['chart-time'], ['chart-legend']]);
});

test('what is told of the present is of the newest step while that is the present, and how long it is', async () => {
  await tell(500);
  show();
  const chart = screen.getByRole('slider', { name: 'IOPS over time' });
  const caption = () => chart.parentElement?.querySelector('figcaption')?.textContent;
  expect(caption()).toBe('IOPSreads 500writes 0others 0');
  // Of the last second there are figures elsewhere; this is more.
  await tell(501, until(501, 10));
  expect(caption()).toBe('IOPSover 10\u00a0sreads 501writes 0others 0');
  // Where nothing has been measured since, what was is not told as what is.
  await tell(502, { ...until(502), until_ms: 520_000 });
  expect(caption()).toBe('IOPSreads –writes –others –');
  fireEvent.focus(chart);
  expect(chart.getAttribute('aria-valuetext')).toBe('now: reads –, writes –, others –');
  fireEvent.keyDown(chart, { key: 'End' });
  expect(caption()).toMatch(/reads 502writes 0others 0$/);
});
