import { expect, test } from 'vitest';
import type { AlarmKind } from '../api/types';
import { clearOf, isWell, limit, placeOf, raisedOf, readLimit, seenIn, seenOf } from './alarms';

test('what an alarm is about has a page if it is a node or a volume', () => {
  expect(placeOf('node n1')).toEqual(['nodes', 'n1']);
  expect(placeOf('device 2 of node n1')).toEqual(['nodes', 'n1']);
  expect(placeOf('volume sql-data')).toEqual(['volumes', 'sql-data']);
  expect(placeOf('metadata')).toBeNull();
  expect(placeOf('cluster')).toBeNull();
});

test('limits are told with their unit and read as numbers', () => {
  const kind = (unit: string, set: number, clear = set) =>
    ({ unit, threshold: { set, clear } }) as AlarmKind;
  const percent = kind('percent', 85, 80);
  expect([raisedOf(percent), clearOf(percent)]).toEqual([
    'at 85\u00a0%',
    'when better than 80\u00a0%',
  ]);
  expect(limit(percent, 85)).toBe('85');
  expect(raisedOf(kind('seconds', 86_400))).toBe('at 24\u00a0h');
  expect(raisedOf(kind('milliseconds', 2000))).toBe('at 2\u00a0s');
  expect(raisedOf(kind('days', 1))).toBe('at 1\u00a0day');
  expect(raisedOf(kind('what comes later', 7))).toBe('at 7');
  // What is so or not has no limit.
  const state = kind('state', 1, 0);
  expect([raisedOf(state), clearOf(state)]).toEqual(['when it is so', 'when it is so no more']);
  expect(readLimit(' 85 ')).toBe(85);
  for (const wrong of ['', '-1', '8.5', '85\u00a0%', '9999999999'])
    expect(readLimit(wrong)).toBeNull();
});

test('of an alarm that is raised still, that it is well again is said first', () => {
  const well = 'it is well again, and over when that has lasted for 10 s';
  const raised = { cleared_ms: null, detail: `it does not answer - ${well}` };
  expect(isWell(raised)).toBe(true);
  expect(seenOf(raised)).toBe(`${well}; it was “it does not answer”`);
  const bad = { cleared_ms: null, detail: 'it does not answer' };
  expect([isWell(bad), seenOf(bad)]).toEqual([false, 'it does not answer']);
  const alone = { cleared_ms: null, detail: well };
  expect([isWell(alone), seenOf(alone)]).toEqual([true, well]);
  const over = {
    cleared_ms: 1,
    detail: 'it does not answer - it has been well again for 10 s',
  };
  expect([isWell(over), seenOf(over)]).toEqual([false, over.detail]);
});

test('what was seen of an alarm is told from what stands behind it', () => {
  const well = 'it is well again, and over when that has lasted for 10 s';
  const seen = 'n1 is down - it does not answer';
  expect(seenIn(seen)).toEqual({ what: seen, well: null, over: null });
  expect(seenIn(`${seen} - ${well}`)).toEqual({ what: seen, well, over: null });
  const over = 'has been well again for 10 s';
  expect(seenIn(`${seen} - it ${over}`)).toEqual({ what: seen, well: null, over });
  // Only what stands at the end.
  const amid = `${seen} - it ${over}, it says`;
  expect(seenIn(amid)).toEqual({ what: amid, well: null, over: null });
});
