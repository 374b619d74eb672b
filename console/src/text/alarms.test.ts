import { expect, test } from 'vitest';
import type { AlarmKind } from '../api/types';
import { clearOf, limit, limitOf, placeOf, readLimit } from './alarms';

test('what an alarm is about has a page if it is a node or a volume', () => {
  expect(placeOf('node n1')).toEqual(['nodes', 'n1']);
  expect(placeOf('device 2 of node n1')).toEqual(['nodes', 'n1']);
  expect(placeOf('volume sql-data')).toEqual(['volumes', 'sql-data']);
  expect(placeOf('metadata')).toBeNull();
  expect(placeOf('cluster')).toBeNull();
});

test('limits are told with their unit and read as numbers', () => {
  const kind = { unit: 'percent' } as AlarmKind;
  expect(limitOf(kind, 85)).toBe('85\u00a0%');
  expect(limit(kind, 85)).toBe('85');
  const other = (unit: string, value: number) => limitOf({ unit } as AlarmKind, value);
  expect(other('seconds', 86_400)).toBe('24\u00a0h');
  expect(other('milliseconds', 2000)).toBe('2\u00a0s');
  expect(other('days', 1)).toBe('1\u00a0day');
  expect(other('what comes later', 7)).toBe('7');
  expect(limitOf({ unit: 'state' } as AlarmKind, 1)).toBe('if it is so');
  expect(clearOf({ unit: 'state' } as AlarmKind)).toBe('if it is not');
  expect(readLimit(' 85 ')).toBe(85);
  for (const wrong of ['', '-1', '8.5', '85\u00a0%', '9999999999'])
    expect(readLimit(wrong)).toBeNull();
});
