import { expect, test } from 'vitest';
import type { Event } from '../api/types';
import { joined, shownEvents, unlogged } from './events';

const event = (id: string, at_ms: number, subject = 'node n1', detail = 'down'): Event => ({
  id,
  at_ms,
  kind: 'node-lost',
  severity: 'warning',
  subject,
  detail,
});

const ids = (events: Event[]) => events.map((one) => one.id);

test('what has come again is there once, and where there would be a gap only the new is', () => {
  const known = [event('l-3', 3), event('l-2', 2), event('l-1', 1)];
  expect(ids(joined(known, [event('l-4', 4), event('l-3', 3)], false))).toEqual([
    'l-4',
    'l-3',
    'l-2',
    'l-1',
  ]);
  expect(ids(joined(known, [event('l-9', 9), event('l-8', 8)], false))).toEqual(['l-9', 'l-8']);
  expect(ids(joined(known, [], true))).toEqual(['l-3', 'l-2', 'l-1']);
  // What another node has put down comes in between.
  expect(ids(joined(known, [event('l-3', 3), event('m-2', 2)], false))).toEqual([
    'l-3',
    'm-2',
    'l-2',
    'l-1',
  ]);
});

test('an event that the stream and the log tell is shown once', () => {
  const live = [event('s-2', 61_500), event('s-1', 1_200)];
  expect(ids(unlogged(live, []))).toEqual(['s-2', 's-1']);
  expect(ids(unlogged(live, [event('l-1', 1_900)]))).toEqual(['s-2']);
  expect(ids(shownEvents(live, [event('l-2', 60_700), event('l-1', 1_900)]))).toEqual([
    'l-2',
    'l-1',
  ]);
  // Another volume's, and another kind's, are others.
  expect(ids(unlogged(live, [event('l-1', 1_900, 'node n2')]))).toEqual(['s-2', 's-1']);
  // One of the log stands for one of the stream.
  const twice = [event('s-2', 3_000, 'volume a', 'n3'), event('s-1', 2_000, 'volume a', 'n2')];
  expect(ids(unlogged(twice, [event('l-1', 2_500, 'volume a', 'n3')]))).toEqual(['s-1']);
});
