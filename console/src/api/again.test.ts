import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { again, QUIET_MS, STEADY_MS } from './again';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** The times at which it is read. */
function reads(can = () => true) {
  const times: number[] = [];
  const it = again(() => {
    if (can()) times.push(performance.now());
    return can();
  });
  return { ...it, times };
}

test('it is read once, a moment after what was told last', () => {
  const { told, times } = reads();
  const begun = performance.now();
  told();
  vi.advanceTimersByTime(QUIET_MS - 500);
  told();
  vi.advanceTimersByTime(60_000);
  expect(times.map((time) => time - begun)).toEqual([2 * QUIET_MS - 500]);
});

test('it is read while something is told without a pause, and after the last of it', () => {
  const { told, times } = reads();
  let last = 0;
  for (let step = 0; step < 100; step += 1) {
    told();
    last = performance.now();
    vi.advanceTimersByTime(300);
  }
  expect(times.length).toBeGreaterThanOrEqual(Math.floor(30_000 / (STEADY_MS + 300)));
  const pauses = times.slice(1).map((time, at) => time - (times[at] ?? 0));
  expect(Math.max(...pauses)).toBeLessThanOrEqual(STEADY_MS);
  expect(Math.min(...pauses)).toBeGreaterThanOrEqual(QUIET_MS);
  vi.advanceTimersByTime(60_000);
  expect((times.at(-1) ?? 0) - last).toBeGreaterThanOrEqual(QUIET_MS);
  expect((times.at(-1) ?? 0) - last).toBeLessThanOrEqual(STEADY_MS);
});

test('what is under way is not broken off, and nothing is read after the end', () => {
  let isFree = false;
  const { told, end, times } = reads(() => isFree);
  told();
  vi.advanceTimersByTime(5 * QUIET_MS);
  expect(times).toEqual([]);
  isFree = true;
  vi.advanceTimersByTime(QUIET_MS);
  expect(times.length).toBe(1);
  told();
  end();
  vi.advanceTimersByTime(60_000);
  expect(times.length).toBe(1);
});
