import type { Event, EventList } from '../api/types';
import { UNITS } from './prose';

/** Events of a piece of the log. */
export const PIECE_MAX = 100;
/** Events of the log that are known at a time, so that a page that is open for days, or asked for more and more, stays as it is. */
export const KNOWN_MAX = 5_000;

/**
 * Two nodes see the same change so far from each other at most, by their clocks: each looks once a second, a look takes a moment,
 * and clocks that differ by a second raise an alarm.
 */
const APART_MS = 5_000;

/** In the order of the log, the newest first: its cursors stand in it. */
function order(a: Event, b: Event): number {
  if (a.at_ms !== b.at_ms) return b.at_ms - a.at_ms;
  return a.id < b.id ? 1 : -1;
}

/** What is known of the log: everything down to the last of its events. */
export type Known = {
  /** The newest first. */
  events: Event[];
  /** What `after` says for what comes after these; null where nothing does. */
  next: string | null;
  /** What it says for what comes after an event, by the event's id, where a piece has ended with it. */
  nexts: ReadonlyMap<string, string>;
  /** Nodes that did not answer for some of it, and have not told their part since. */
  silent: string[];
};

/** A piece as all that is known. */
export function alone(piece: EventList): Known {
  const { events, next, silent } = piece;
  return { events, next: next ?? null, nexts: ends(new Map(), piece), silent };
}

function ends(nexts: Known['nexts'], { events, next }: EventList): Known['nexts'] {
  const last = events.at(-1);
  return last && next != null ? new Map(nexts).set(last.id, next) : nexts;
}

/**
 * What is known after the newest piece has come again. Where so much has happened that the two do not meet, only the new one
 * is known: else there would be a gap that nobody sees.
 */
export function withNewest(known: Known, newest: EventList): Known {
  const ids = new Set(newest.events.map((event) => event.id));
  const meets =
    newest.next == null ||
    known.events.length === 0 ||
    known.events.some((event) => ids.has(event.id));
  if (!meets) return alone(newest);
  // Where nothing was known the piece says where it goes on.
  const next = known.events.length === 0 ? (newest.next ?? null) : known.next;
  const events = joined(known.events, newest.events);
  // Whoever has told of all that is known has told its part, though it does not answer at other times.
  const silent = reaches(newest, known)
    ? known.silent.filter((node) => newest.silent.includes(node))
    : known.silent;
  return trimmed({ events, next, nexts: ends(known.nexts, newest), silent }) ?? alone(newest);
}

/** Whether a piece is of all that is known. */
function reaches(piece: EventList, known: Known): boolean {
  const [last, oldest] = [piece.events.at(-1), known.events.at(-1)];
  if (piece.next == null || !oldest || !last) return true;
  return last.id === oldest.id || order(last, oldest) > 0;
}

/**
 * What is known with a piece that was asked for with `after`. One that does not go on where what is known ends, because that was
 * begun anew or cut meanwhile, would leave a gap: nothing comes of it.
 */
export function withOlder(known: Known, after: string, piece: EventList): Known {
  if (known.next !== after) return known;
  const events = joined(known.events, piece.events);
  const silent = [...new Set([...known.silent, ...piece.silent])].sort();
  return { events, next: piece.next ?? null, nexts: ends(known.nexts, piece), silent };
}

/** Whether one more piece may be known. */
export function hasRoom(known: Known): boolean {
  return known.events.length + PIECE_MAX <= KNOWN_MAX;
}

/** Both, each event once, and as it was known: what has not changed is not drawn again. */
function joined(known: Event[], piece: Event[]): Event[] {
  const ids = new Set(known.map((event) => event.id));
  const more = piece.filter((event) => !ids.has(event.id));
  return more.length === 0 ? known : [...more, ...known].sort(order);
}

/** As much of it as may be known: down to where a piece has ended, for it can be gone on from there. Null if none has. */
function trimmed(known: Known): Known | null {
  if (known.events.length <= KNOWN_MAX) return known;
  const events = known.events.slice(0, KNOWN_MAX);
  while (!known.nexts.has(events.at(-1)?.id ?? '')) {
    if (events.pop() === undefined) return null;
  }
  const ids = new Set(events.map(({ id }) => id));
  const nexts = new Map([...known.nexts].filter(([id]) => ids.has(id)));
  return { ...known, events, next: nexts.get(events.at(-1)?.id ?? '') ?? null, nexts };
}

/**
 * What came live, and is not in the log yet. The stream and the log name the same event differently, for two nodes have seen it.
 *
 * Where the log has looked past an event, it has it, or its node has seen nothing of the kind: what it says is all there is. Until
 * then, some seconds, each event of the log stands for one of the stream of the same kind, about the same and of about the same time
 * that says the same, but for its numbers at most; in the order of time, for the second of two is not the first one.
 */
function unlogged(live: Event[], log: Event[], looked_ms: number): Event[] {
  const oldestFirst = [...live].sort((a, b) => a.at_ms - b.at_ms);
  const from = (oldestFirst[0]?.at_ms ?? 0) - APART_MS;
  const logged = log.filter((one) => one.at_ms >= from).sort((a, b) => order(b, a));
  const [told, taken] = [new Set<Event>(), new Set<Event>()];
  for (const says of [(event: Event) => event.detail, numberless]) {
    for (const event of oldestFirst) {
      if (told.has(event)) continue;
      const match = logged.find(
        (one) =>
          !taken.has(one) &&
          one.kind === event.kind &&
          one.subject === event.subject &&
          near(event, one) &&
          says(one) === says(event),
      );
      if (match) {
        told.add(event);
        taken.add(match);
      }
    }
  }
  return live.filter((event) => !told.has(event) && event.at_ms + APART_MS > looked_ms);
}

/** Whether an event of the stream may be one of the log, by their times. */
function near(live: Event, logged: Event): boolean {
  const from = logged.not_before_ms ?? logged.at_ms;
  return live.at_ms >= from - APART_MS && live.at_ms <= logged.at_ms + APART_MS;
}

/** Numbers with their units; those in names, as in n2 and db-1, are none. */
const NUMBERS = new RegExp(`(?<![\\w.-])\\d+(?:\\.\\d+)*(?: (?:${UNITS})(?!\\w))?(?![\\w-])`, 'g');

/** What an event says, but for numbers: two looks at the same may have seen others. */
function numberless({ detail }: Event): string {
  return detail.replace(NUMBERS, '#').replace(/# ([a-z]+?)s?\b/g, '# $1');
}

/** All of it as one list, the newest first; `looked_ms` is until when the log has everything. */
export function shownEvents(live: Event[], log: Event[], looked_ms: number): Event[] {
  return [...unlogged(live, log, looked_ms), ...log].sort((a, b) => b.at_ms - a.at_ms);
}

/**
 * Tells whether an event is about what was typed. Of these events some may be about exactly that, as "node n1" and "device 2 of node n1"
 * are about `n1`: then "node n10" is not meant. Else it is a part of a name.
 */
export function aboutWhat(events: Event[], typed: string): (event: Event) => boolean {
  const sought = typed.trim().toLowerCase();
  if (sought === '') return () => true;
  const isExactly = ({ subject }: Event) => ` ${subject.toLowerCase()}`.endsWith(` ${sought}`);
  if (events.some(isExactly)) return isExactly;
  return ({ subject }) => subject.toLowerCase().includes(sought);
}
