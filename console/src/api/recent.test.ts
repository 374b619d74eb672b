import { expect, test } from 'vitest';
import { recent } from './recent';

const error = new Error('x');

test('what cannot be read any more is of the present for ten seconds', () => {
  const now = Date.now();
  expect(recent({ data: 1, error: null, dataUpdatedAt: now - 60_000 })).toBe(1);
  expect(recent({ data: 1, error, dataUpdatedAt: now - 5_000 })).toBe(1);
  expect(recent({ data: 1, error, dataUpdatedAt: now - 11_000 })).toBeUndefined();
  expect(recent({ data: undefined, error, dataUpdatedAt: 0 })).toBeUndefined();
});
