import { expect, test } from 'vitest';
import type { AlarmKind } from '../api/types';
import { promised } from './promised';

const GIB = 1024 ** 3;

const kind = (code: string, set: number, off = false) =>
  ({ kind: code, off, threshold: { set, clear: set - 2, hold_seconds: 60 } }) as AlarmKind;
const KINDS = [
  kind('pool-filling', 70),
  kind('pool-low', 85),
  kind('pool-almost-full', 95),
  kind('overcommitted', 300),
];
const status = (bytes: number, promised_bytes: number, up = 3) => ({
  pool: { bytes, used_bytes: 0 },
  promised_bytes,
  nodes: { total: 3, up },
});

test('what is promised is told, and from all of the pool on what follows', () => {
  const less = promised(status(100 * GIB, 40 * GIB), 20 * GIB, KINDS);
  expect(less?.warning).toBeNull();
  expect(less?.text).toMatch(/^60\u00a0% of the pool: 60\u00a0GiB of 100\u00a0GiB/);
  expect(promised(status(100 * GIB, 40 * GIB), 60 * GIB - 1, KINDS)?.warning).toBeNull();
  expect(promised(status(100 * GIB, 40 * GIB), 60 * GIB, KINDS)?.warning).toMatch(/100\u00a0%/);
  const over = promised(status(100 * GIB, 98 * GIB), 20 * GIB, KINDS);
  expect(over?.text).toMatch(/^118\u00a0% of the pool/);
  expect(over?.warning).toMatch(/118\u00a0% of the pool then/);
  expect(over?.warning).toMatch(/refused on every volume/);
  expect(over?.warning).toMatch(/70, 85 and 95\u00a0% full/);
  expect(over?.warning).not.toMatch(/not up/);
});

test('alarms are told as they are set, and what is not counted is said', () => {
  const of = (kinds: AlarmKind[] | undefined, up = 3) =>
    promised(status(GIB, GIB, up), GIB, kinds)?.warning;
  expect(of([kind('pool-filling', 60), kind('pool-low', 85, true)])).toMatch(/is 60\u00a0% full/);
  expect(of([kind('pool-filling', 60, true)])).toMatch(/are off/);
  expect(of(undefined)).not.toMatch(/larm/);
  expect(of(KINDS, 2)).toMatch(/The room of the node that is not up is not counted/);
  expect(of(KINDS, 1)).toMatch(/the 2 nodes that are not up/);
});

test('where there is no room at all nothing is compared with it', () => {
  expect(promised(status(0, 0), GIB, KINDS)).toBeNull();
});
