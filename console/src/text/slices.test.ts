import { expect, test } from 'vitest';
import type { Slice } from '../api/types';
import { isWhole, nodesOf, partOf, partWords, slicesSentence } from './slices';

const slice: Slice = {
  index: 0,
  epoch: 3,
  primary: 'n2',
  served: true,
  in_sync: ['n2', 'n10'],
  joining: [{ node: 'n1', bytes_done: 30, bytes_total: 120 }],
  absent: [{ node: 'n3', bytes_lacking: 4096 }],
};

test('each node has its part', () => {
  expect(partOf(slice, 'n2')).toEqual({ role: 'primary' });
  expect(partOf(slice, 'n10')).toEqual({ role: 'in-sync' });
  expect(partOf(slice, 'n1')).toEqual({ role: 'joining', done: 0.25 });
  expect(partOf(slice, 'n3')).toEqual({ role: 'absent' });
  expect(partOf(slice, 'n4')).toEqual({ role: 'elsewhere' });
});

test('nobody is said to lead a slice that is not served', () => {
  expect(partOf({ ...slice, served: false }, 'n2')).toEqual({ role: 'in-sync' });
});

test('a primary that is absent is absent', () => {
  const lost: Slice = { ...slice, in_sync: ['n10'], absent: [{ node: 'n2', bytes_lacking: null }] };
  expect(partOf(lost, 'n2')).toEqual({ role: 'absent' });
  expect(partWords({ role: 'absent' }, lost, 'n2')).toBe('lacks what has changed');
});

test('a copy that is away, and lacks nothing, is not said to lack something', () => {
  const away: Slice = { ...slice, joining: [], absent: [{ node: 'n3', bytes_lacking: 0 }] };
  expect(partOf(away, 'n3')).toEqual({ role: 'away' });
  expect(partWords(partOf(away, 'n3'), away, 'n3')).toBe('is away, nothing to copy');
  expect(isWhole(away)).toBe(false);
});

test('nodes are in the order in which people count', () => {
  expect(nodesOf([slice])).toEqual(['n1', 'n2', 'n3', 'n10']);
});

test('a copy that is nearly there is not there', () => {
  const nearly: Slice = {
    ...slice,
    joining: [{ node: 'n1', bytes_done: 999, bytes_total: 1000 }],
    absent: [],
  };
  expect(partWords(partOf(nearly, 'n1'), nearly, 'n1')).toContain('99\u00a0%');
  expect(isWhole(nearly)).toBe(false);
  expect(slicesSentence([nearly])).toBe('The slice is being brought up to date.');
  const whole = { ...nearly, joining: [] };
  expect(slicesSentence([whole])).toBe('The slice has every copy.');
  expect(slicesSentence([whole, nearly])).toContain('1 of 2 slices has every copy');
});
