import type { Event, EventList } from '../api/types';

/** Events of a piece of the log. */
export const PIECE_MAX = 100;
/** Events of the log that are known at a time, so that a page that is open for days, or asked for more and more, stays as it is. */
export const KNOWN_MAX = 5_000;

/** What a look in another process sees a moment later, or before, with another clock: the same event. */
const SAME_MS = 10_000;

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
};

/** A piece as all that is known. */
export function alone(piece: EventList): Known {
  return { events: piece.events, next: piece.next ?? null, nexts: ends(new Map(), piece) };
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
  return trimmed({ events, next, nexts: ends(known.nexts, newest) });
}

/**
 * What is known with a piece that was asked for with `after`. One that does not go on where what is known ends, because that was
 * begun anew or cut meanwhile, would leave a gap: nothing comes of it.
 */
export function withOlder(known: Known, after: string, piece: EventList): Known {
  if (known.next !== after) return known;
  const events = joined(known.events, piece.events);
  return { events, next: piece.next ?? null, nexts: ends(known.nexts, piece) };
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

/** As much of it as may be known: down to where a piece has ended, for it can be gone on from there. */
function trimmed(known: Known): Known {
  if (known.events.length <= KNOWN_MAX) return known;
  const events = known.events.slice(0, KNOWN_MAX);
  while (events.length > 0 && !known.nexts.has(events.at(-1)?.id ?? '')) events.pop();
  const ids = new Set(events.map(({ id }) => id));
  const nexts = new Map([...known.nexts].filter(([id]) => ids.has(id)));
  return { events, next: nexts.get(events.at(-1)?.id ?? '') ?? null, nexts };
}

/**
 * What came live, and is not in the log yet. The stream and the log name the same event differently, for two nodes have seen
 * it: each event of the log stands for one of the stream that is of the same kind, about the same, and of about the same time.
 */
export function unlogged(live: Event[], log: Event[]): Event[] {
  const taken = new Set<string>();
  const left = (some: Event[], isSame: (one: Event, event: Event) => boolean) =>
    some.filter((event) => {
      const match = log.find(
        (one) =>
          !taken.has(one.id) &&
          one.kind === event.kind &&
          one.subject === event.subject &&
          Math.abs(one.at_ms - event.at_ms) <= SAME_MS &&
          isSame(one, event),
      );
      if (match) taken.add(match.id);
      return match === undefined;
    });
  // Those that say the same are the same first; two looks may have seen other numbers.
  const others = left(live, (one, event) => one.detail === event.detail);
  return left(others, () => true);
}

/** All of it as one list, the newest first. */
export function shownEvents(live: Event[], log: Event[]): Event[] {
  return [...unlogged(live, log), ...log].sort((a, b) => b.at_ms - a.at_ms);
}
