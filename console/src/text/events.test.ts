import { expect, test } from 'vitest';
import type { Event, EventList } from '../api/types';
import {
  alone,
  hasRoom,
  KNOWN_MAX,
  type Known,
  shownEvents,
  unlogged,
  withNewest,
  withOlder,
} from './events';

const event = (id: string, at_ms: number, subject = 'node n1', detail = 'down'): Event => ({
  id,
  at_ms,
  kind: 'node-lost',
  severity: 'warning',
  subject,
  detail,
});

const ids = (events: Event[]) => events.map((one) => one.id);

const piece = (next: string | null, ...events: Event[]): EventList => ({
  events,
  silent: [],
  ...(next === null ? {} : { next }),
});
const at = (...times: number[]) => times.map((time) => event(`l-${time}`, time));
const known = (it: Known) => [...ids(it.events), it.next];

test('what has come again is there once, and where there would be a gap only the new is', () => {
  const before = withOlder(alone(piece('2', ...at(3, 2))), '2', piece(null, ...at(1)));
  expect(known(before)).toEqual(['l-3', 'l-2', 'l-1', null]);
  const met = withNewest(before, piece('3', ...at(4, 3)));
  expect(known(met)).toEqual(['l-4', 'l-3', 'l-2', 'l-1', null]);
  // What is known already is not made anew.
  expect(met.events[1]).toBe(before.events[0]);
  expect(known(withNewest(before, piece('8', ...at(9, 8))))).toEqual(['l-9', 'l-8', '8']);
  expect(known(withNewest(before, piece(null)))).toEqual(['l-3', 'l-2', 'l-1', null]);
  expect(known(withNewest(alone(piece(null)), piece('3', ...at(4, 3))))).toEqual([
    'l-4',
    'l-3',
    '3',
  ]);
  // What another node has put down comes in between.
  expect(
    known(withNewest(before, piece('2', event('l-3', 3), event('m-2', 2), event('l-2', 2)))),
  ).toEqual(['l-3', 'm-2', 'l-2', 'l-1', null]);
});

test('an older piece that comes late leaves no gap', () => {
  const before = alone(piece('2', ...at(3, 2)));
  const anew = withNewest(before, piece('8', ...at(9, 8)));
  expect(withOlder(anew, '2', piece('1', ...at(1)))).toBe(anew);
  expect(known(withOlder(anew, '8', piece('7', ...at(7))))).toEqual(['l-9', 'l-8', 'l-7', '7']);
});

test('what is known is bounded, and goes on where it is cut', () => {
  const newest = (time: number) =>
    piece(`after ${time - 99}`, ...at(...Array.from({ length: 100 }, (_, back) => time - back)));
  let it = alone(newest(100));
  for (let time = 130; time <= 20_000; time += 30) {
    it = withNewest(it, newest(time));
    expect(it.events.length).toBeLessThanOrEqual(KNOWN_MAX);
    expect(it.nexts.size).toBeLessThanOrEqual(KNOWN_MAX);
  }
  expect(it.events.length).toBeGreaterThan(KNOWN_MAX - 200);
  const times = it.events.map((one) => one.at_ms);
  expect(times.every((time, place) => time === (times[0] ?? 0) - place)).toBe(true);
  const last = times.at(-1) ?? 0;
  expect(it.next).toBe(`after ${last}`);
  expect(hasRoom(it)).toBe(KNOWN_MAX - it.events.length >= 100);
  // A piece that was asked for before it was cut comes too late, too.
  expect(withOlder(it, 'after 1', piece(null, ...at(0)))).toBe(it);
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
