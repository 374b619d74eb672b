/**
 * Numbers as people read them, each with its unit on the same line, as a space that does not break keeps it. The command line writes them
 * in the same way.
 */

/** What stands between a number and its unit. */
const GAP = '\u00a0';

const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const;

/** Three digits that matter, without zeros at the end: 1.5, 12, 118. */
function short(value: number): string {
  const digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return value.toFixed(digits).replace(/\.0+$|(\.\d*?)0+$/, '$1');
}

export function bytes(count: number): string {
  let value = count;
  let unit = 0;
  // By what would be shown: 1023.9 KiB is 1 MiB.
  while (value >= 1023.5 && unit < BINARY.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(value) : short(value)}${GAP}${BINARY[unit]}`;
}

export function bytesPerSecond(rate: number): string {
  return `${bytes(rate)}/s`;
}

/** A count: 950, 1.2 k, 3.4 M. */
export function count(value: number): string {
  if (value < 999.5)
    return value < 10 && !Number.isInteger(value) ? short(value) : String(Math.round(value));
  if (value < 999_500) return `${short(value / 1e3)}${GAP}k`;
  return `${short(value / 1e6)}${GAP}M`;
}

/** How long a command took. Nodes tell whole microseconds, to the nearest. */
export function latency(us: number): string {
  if (us < 0.5) return `< 1${GAP}µs`;
  if (us < 999.5) return `${Math.round(us)}${GAP}µs`;
  if (us < 999_500) return `${short(us / 1e3)}${GAP}ms`;
  return `${short(us / 1e6)}${GAP}s`;
}

/** A time span of which the largest part matters: 45 s, 12 min, 3 h 20 min, 2 d 4 h. */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole}${GAP}s`;
  const minutes = Math.round(whole / 60);
  if (minutes < 120) return `${minutes}${GAP}min`;
  if (minutes < 48 * 60) return pair(Math.floor(minutes / 60), 'h', minutes % 60, 'min');
  const hours = Math.round(minutes / 60);
  return pair(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  const whole = `${large}${GAP}${largeUnit}`;
  return small === 0 ? whole : `${whole} ${small}${GAP}${smallUnit}`;
}

export function milliseconds(ms: number): string {
  return ms < 1000
    ? `${ms}${GAP}ms`
    : ms < 120_000
      ? `${short(ms / 1000)}${GAP}s`
      : span(ms / 1000);
}

/** A part of a whole; never 0 % of something, nor 100 % of less than all. */
export function percent(part: number, whole: number): string {
  if (whole <= 0) return `0${GAP}%`;
  const exact = (100 * part) / whole;
  if (part > 0 && exact < 0.1) return `<${GAP}0.1${GAP}%`;
  if (part < whole && exact > 99.9) return `>${GAP}99.9${GAP}%`;
  return `${short(exact)}${GAP}%`;
}

export function plural(many: number, one: string, more = `${one}s`): string {
  return `${many} ${many === 1 ? one : more}`;
}

/** A moment, by the clock of whoever looks: the time alone if it is of today. */
export function moment(ms: number, now = Date.now()): string {
  const at = new Date(ms);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  if (at.toDateString() === new Date(now).toDateString()) return time;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}

const SIZE = /^\s*(\d+(?:\.\d+)?)\s*(b|[kmgtp]ib)\s*$/i;

/**
 * Bytes that somebody has typed, as in `10 GiB`; null if that is no size. The units are those of the command line: none that means one
 * thing to some and another to others (`G`, `GB`), and none is left out, for a volume of the wrong size is noticed late.
 */
export function parseBytes(text: string): number | null {
  const found = SIZE.exec(text);
  if (!found?.[1] || !found[2]) return null;
  const power = 'bkmgtp'.indexOf(found[2].charAt(0).toLowerCase());
  const exact = Number(found[1]) * 1024 ** power;
  return Number.isSafeInteger(Math.round(exact)) ? Math.round(exact) : null;
}

const SPAN = /^\s*(\d+(?:\.\d+)?)\s*(s|min|m|h|d)?\s*$/i;
const SECONDS: Record<string, number> = { s: 1, m: 60, min: 60, h: 3600, d: 86_400 };

/** Seconds that somebody has typed, as in `30 min`; null if that is no time. */
export function parseSpan(text: string): number | null {
  const found = SPAN.exec(text);
  if (!found?.[1]) return null;
  const unit = SECONDS[(found[2] ?? 's').toLowerCase()] ?? 1;
  return Math.round(Number(found[1]) * unit);
}
