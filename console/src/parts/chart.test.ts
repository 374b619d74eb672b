import { expect, test } from 'vitest';
import type { Flow, History } from '../api/types';
import { columns, present } from './chart';

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
  expect(present(null)).toBeNull();
});
