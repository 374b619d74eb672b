import type { Event } from '../api/types';

/** What a look in another process sees a moment later, or before, with another clock: the same event. */
const SAME_MS = 10_000;

/** In the order of the log, the newest first: its cursors stand in it. */
function order(a: Event, b: Event): number {
  if (a.at_ms !== b.at_ms) return b.at_ms - a.at_ms;
  return a.id < b.id ? 1 : -1;
}

/**
 * What is known of the log after its newest piece has come again. Where so much has happened that the two do not meet,
 * only the new one is known: else there would be a gap that nobody sees.
 */
export function joined(known: Event[], newest: Event[], isAll: boolean): Event[] {
  const ids = new Set(newest.map((event) => event.id));
  const meets = isAll || known.length === 0 || known.some((event) => ids.has(event.id));
  if (!meets) return newest;
  return [...newest, ...known.filter((event) => !ids.has(event.id))].sort(order);
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
