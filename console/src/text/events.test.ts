import { expect, test } from 'vitest';
import type { Event, EventList } from '../api/types';
import {
  aboutWhat,
  alone,
  hasRoom,
  KNOWN_MAX,
  type Known,
  shownEvents,
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

test('whose part is missing is known until that one has told it', () => {
  const without = (node: string, part: EventList) => ({ ...part, silent: [node] });
  const before = alone(without('n2', piece('2', ...at(3, 2))));
  expect(before.silent).toEqual(['n2']);
  const older = withOlder(before, '2', without('n3', piece('1', ...at(1))));
  expect(older.silent).toEqual(['n2', 'n3']);
  // A newest piece that does not reach down to the end tells nothing of what is there.
  expect(withNewest(older, piece('3', ...at(4, 3))).silent).toEqual(['n2', 'n3']);
  expect(withNewest(older, without('n3', piece('1', ...at(4, 3, 2, 1)))).silent).toEqual(['n3']);
  expect(withNewest(older, piece(null, ...at(3, 2, 1))).silent).toEqual([]);
  expect(withNewest(older, piece('8', ...at(9, 8))).silent).toEqual([]);
  // Who has told it once, and does not answer now, will tell what is new.
  const whole = alone(piece('2', ...at(3, 2)));
  expect(withNewest(whole, without('n2', piece('2', ...at(3, 2)))).silent).toEqual([]);
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
  // Where it is not known from where it could be gone on, the newest piece is what there is.
  const unmarked = alone(
    piece(null, ...at(...Array.from({ length: KNOWN_MAX }, (_, back) => 9_000 - back))),
  );
  expect(known(withNewest(unmarked, piece(null, ...at(9_002, 9_001))))).toEqual([
    'l-9002',
    'l-9001',
    null,
  ]);
  // A piece that was asked for before it was cut comes too late, too.
  expect(withOlder(it, 'after 1', piece(null, ...at(0)))).toBe(it);
});

const DAY = 86_400_000;
/** What the stream tells, and what the log has: its times are those of a day. */
const live = (id: string, at_ms: number, subject?: string, detail?: string) =>
  event(id, DAY + at_ms, subject, detail);
const shown = (stream: Event[], log: Event[], looked_ms = 0) =>
  ids(shownEvents(stream, log, DAY + looked_ms));

test('an event that the stream and the log tell is shown once', () => {
  const stream = [live('s-2', 61_500), live('s-1', 1_200)];
  expect(shown(stream, [])).toEqual(['s-2', 's-1']);
  expect(shown(stream, [live('l-1', 1_900)])).toEqual(['s-2', 'l-1']);
  expect(shown(stream, [live('l-2', 60_700), live('l-1', 1_900)])).toEqual(['l-2', 'l-1']);
  // Another volume's, and another kind's, are others.
  const back: Event = { ...live('l-2', 1_900), kind: 'node-back' };
  expect(shown(stream, [back, live('l-1', 1_900, 'node n2')])).toEqual([
    's-2',
    'l-2',
    'l-1',
    's-1',
  ]);
});

test('a node that is lost twice in eight seconds is lost twice', () => {
  const stream = [live('s-2', 9_000), live('s-1', 1_000)];
  // The log has the first one only: the second one is not taken for it.
  expect(shown(stream, [live('l-1', 1_700)], 2_000)).toEqual(['s-2', 'l-1']);
  expect(shown(stream, [live('l-2', 9_700), live('l-1', 1_700)], 10_000)).toEqual(['l-2', 'l-1']);
  // Sooner yet: in the order in which they came.
  const soon = [live('s-2', 4_000), live('s-1', 1_000)];
  expect(shown(soon, [live('l-1', 1_700)], 2_000)).toEqual(['s-2', 'l-1']);
  // Whoever has come after the first one has the second one of the stream.
  expect(shown([live('s-2', 9_000)], [live('l-1', 1_700)], 2_000)).toEqual(['s-2', 'l-1']);
});

test('what differs in numbers only is the same, and what differs in words or names is not', () => {
  const of = (id: string, at: number, detail: string) => live(id, at, 'volume a', detail);
  const one = 'what is to be on n2 is brought up to date: 900 MiB may differ there';
  const same = 'what is to be on n2 is brought up to date: 1.2 GiB may differ there';
  const other = 'what is to be on n3 is brought up to date: 900 MiB may differ there';
  expect(shown([of('s-1', 1_000, one)], [of('l-1', 1_400, same)])).toEqual(['l-1']);
  expect(shown([of('s-1', 1_000, one)], [of('l-1', 1_400, other)])).toEqual(['l-1', 's-1']);
  // Those that say the same go together, however close a third one is.
  const stream = [of('s-2', 2_000, same), of('s-1', 1_000, one)];
  expect(shown(stream, [of('l-1', 1_100, same)])).toEqual(['l-1', 's-1']);
  expect(shown([of('s-1', 1_000, '1 slice')], [of('l-1', 1_400, '12 slices')])).toEqual(['l-1']);
  const degraded = of('l-1', 1_400, 'degraded');
  expect(shown([of('s-1', 1_000, 'unavailable')], [degraded])).toEqual(['l-1', 's-1']);
});

test('where the log has looked past it, the log is what there is', () => {
  const stream = [live('s-2', 9_000), live('s-1', 1_000, 'volume a', 'unavailable')];
  const log = [live('l-1', 1_400, 'volume a', 'degraded')];
  expect(shown(stream, log, 2_000)).toEqual(['s-2', 'l-1', 's-1']);
  expect(shown(stream, log, 9_500)).toEqual(['s-2', 'l-1']);
  expect(shown(stream, log, 20_000)).toEqual(['l-1']);
  // Nobody steers: what is told stays, for however long.
  expect(shown(stream, [], 900)).toEqual(['s-2', 's-1']);
});

test('what the next node that steers has found late is the same', () => {
  const late = { ...live('l-1', 21_000), not_before_ms: DAY };
  expect(shown([live('s-1', 1_000)], [late])).toEqual(['l-1']);
  expect(shown([live('s-1', 1_000)], [live('l-1', 21_000)])).toEqual(['l-1', 's-1']);
});

test('what was typed is a name, or a part of one where none is called so', () => {
  const subjects = ['node n1', 'device 2 of node n1', 'node n10', 'volume db', 'cluster'];
  const all = subjects.map((subject, place) => event(`l-${place}`, place, subject));
  const about = (typed: string, events = all) =>
    events.filter(aboutWhat(events, typed)).map(({ subject }) => subject);
  expect(about('')).toEqual(subjects);
  expect(about('n1')).toEqual(['node n1', 'device 2 of node n1']);
  expect(about(' Node N1 ')).toEqual(['node n1', 'device 2 of node n1']);
  expect(about('n1', all.slice(2))).toEqual(['node n10']);
  expect(about('d')).toEqual(['node n1', 'device 2 of node n1', 'node n10', 'volume db']);
  expect(about('n7')).toEqual([]);
});
