import type { Alarm, AlarmKind } from '../api/types';
import { milliseconds, span } from './units';

/** The page of what an alarm is about, as the parts of its path; null if it has none. */
export function placeOf(subject: string): string[] | null {
  const found = /^(?:device \d+ of )?(node|volume) (\S+)$/.exec(subject);
  const [, kind, name] = found ?? [];
  return kind && name ? [`${kind}s`, name] : null;
}

/** Behind what was seen of an alarm: `crates/control/src/alarms/book.rs` puts it there. */
const BEHIND =
  /(?:^| - )(?:(it is well again, and over when that has lasted for \d+ s)|it (has been well again for \d+ s))$/;

/** An alarm's detail, taken apart. */
export type Seen = {
  /** What was seen of it. */
  what: string;
  /** That it is well by now, though it is raised until that has lasted; null where that is not said. */
  well: string | null;
  /** For how long it had been well when it was over, after "it"; null where that is not said. */
  over: string | null;
};

/** What stands in an alarm's detail, or behind its kind in an event of it. */
export function seenIn(detail: string): Seen {
  const found = BEHIND.exec(detail);
  const [, well = null, over = null] = found ?? [];
  return { what: detail.slice(0, found?.index), well, over };
}

/** Whether what an alarm is about is well by now, though it is raised until that has lasted. */
export function isWell({ cleared_ms, detail }: Pick<Alarm, 'cleared_ms' | 'detail'>): boolean {
  return cleared_ms == null && seenIn(detail).well !== null;
}

/** What is seen of it: if it is well, that first. */
export function seenOf(alarm: Pick<Alarm, 'cleared_ms' | 'detail'>): string {
  const { what, well } = seenIn(alarm.detail);
  return isWell(alarm) && what ? `${well}; it was “${what}”` : alarm.detail;
}

const IN_WORDS: Record<string, (value: number) => string> = {
  percent: (value) => `${value}\u00a0%`,
  milliseconds,
  seconds: span,
  days: (value) => `${value}\u00a0${value === 1 ? 'day' : 'days'}`,
};

/** A limit as it is typed: a number. */
export function limit(kind: AlarmKind, value: number): string {
  return kind.unit === 'state' ? '' : String(value);
}

/** When an alarm of this kind is raised, in words. */
export function raisedOf(kind: AlarmKind): string {
  return kind.unit === 'state' ? 'when it is so' : `at ${limitOf(kind, kind.threshold.set)}`;
}

/** When it is over. */
export function clearOf(kind: AlarmKind): string {
  if (kind.unit === 'state') return 'when it is so no more';
  return `when better than ${limitOf(kind, kind.threshold.clear)}`;
}

/** A limit in words. */
function limitOf(kind: AlarmKind, value: number): string {
  return (IN_WORDS[kind.unit] ?? String)(value);
}

/** What was typed as a limit; null if it is none. */
export function readLimit(text: string): number | null {
  return /^\s*\d{1,9}\s*$/.test(text) ? Number.parseInt(text, 10) : null;
}
