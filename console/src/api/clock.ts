/** Nodes tell the time in whole seconds, and answers take a while: clocks that differ by less are taken for the same. */
const SAME_MS = 2_000;

let ahead = 0;

/** Takes note of when a node says that it has answered: the header `Date` (RFC 9110, section 6.6.1). */
export function note(date: string | null): void {
  const at = date === null ? Number.NaN : Date.parse(date);
  if (Number.isNaN(at)) return;
  const difference = at - Date.now();
  ahead = Math.abs(difference) > SAME_MS ? difference : 0;
}

/** The time by the clock of the node, in milliseconds since 1970: what it has measured it tells by that, and the browser's may be set wrong. */
export function now(): number {
  return Date.now() + ahead;
}
