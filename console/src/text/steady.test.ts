import { expect, test } from 'vitest';
import { type Shown, steady } from './steady';

/** What is shown, a second after each other. */
function run(estimates: number[]): number[] {
  let shown: Shown | null = null;
  return estimates.map((estimate, second) => {
    shown = steady(shown, estimate, second * 1000);
    return Math.round(shown.seconds);
  });
}

test('a time left goes down by the clock while estimates are about right', () => {
  expect(run([100, 80, 115, 104, 90])).toEqual([100, 99, 98, 97, 96]);
});

test('it follows what stays different, a part at a time', () => {
  const shown = run([100, ...Array<number>(30).fill(200)]);
  expect(shown[1]).toBeGreaterThan(100);
  expect(shown[1]).toBeLessThan(140);
  expect(shown.at(-1)).toBeGreaterThan(140);
  // It never jumps up and down.
  for (const [at, value] of shown.slice(2, 8).entries()) {
    expect(value).toBeGreaterThanOrEqual((shown[at + 1] ?? 0) - 1);
  }
});

test('what is altogether different, or as good as over, is shown at once', () => {
  expect(run([100, 1000])).toEqual([100, 1000]);
  expect(run([3600, 60])).toEqual([3600, 60]);
  expect(run([10, 2, 0])).toEqual([10, 2, 0]);
});
