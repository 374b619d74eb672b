import type { Slice } from '../api/types';
import { bytes } from './units';

/** What a node is to a slice. */
export type Part =
  | { role: 'primary' | 'in-sync' | 'absent' | 'away' | 'elsewhere' }
  | { role: 'joining'; done: number };

/** What each node is to a slice; the primary among those in sync only if it is served. */
export function partOf(slice: Slice, node: string): Part {
  const joining = slice.joining.find((replica) => replica.node === node);
  if (joining) {
    const done = joining.bytes_total > 0 ? joining.bytes_done / joining.bytes_total : 0;
    return { role: 'joining', done: Math.max(0, Math.min(1, done)) };
  }
  const absent = slice.absent?.find((replica) => replica.node === node);
  // Nothing has been written since it went: nothing is to be copied.
  if (absent) return { role: absent.bytes_lacking === 0 ? 'away' : 'absent' };
  if (slice.primary === node && slice.served !== false) return { role: 'primary' };
  return { role: slice.in_sync.includes(node) ? 'in-sync' : 'elsewhere' };
}

/** The nodes that are anything to any of the slices, by name as people count: n2 before n10. */
export function nodesOf(slices: Slice[]): string[] {
  const names = new Set<string>();
  for (const slice of slices) {
    for (const name of slice.in_sync) names.add(name);
    for (const { node } of [...slice.joining, ...(slice.absent ?? [])]) names.add(node);
  }
  return [...names].sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
}

export function isWhole(slice: Slice): boolean {
  return slice.served !== false && slice.joining.length === 0 && (slice.absent ?? []).length === 0;
}

export function partWords(part: Part, slice: Slice, node: string): string {
  switch (part.role) {
    case 'primary':
      return 'leads, in sync';
    case 'in-sync':
      return 'in sync';
    case 'joining':
      return `is being brought up to date, ${Math.floor(part.done * 100)}\u00a0%`;
    case 'absent':
    case 'away':
      return lackWords(slice.absent?.find((replica) => replica.node === node)?.bytes_lacking);
    case 'elsewhere':
      return 'has no copy';
  }
}

/** What a copy that is not there lacks, as far as anybody knows: of a volume to which nobody has written, nothing. */
export function lackWords(lacking: number | null | undefined): string {
  if (lacking == null) return 'lacks what has changed';
  return lacking === 0 ? 'is away, nothing to copy' : `lacks ${bytes(lacking)}`;
}

/** All slices in one sentence: what the picture says to those who do not see it. */
export function slicesSentence(slices: Slice[]): string {
  const whole = slices.filter(isWhole).length;
  const unserved = slices.filter((slice) => slice.served === false).length;
  const joining = slices.filter((slice) => slice.joining.length > 0).length;
  if (slices.length === 1) {
    if (whole === 1) return 'The slice has every copy.';
    const lacks = joining > 0 ? 'is being brought up to date' : 'lacks a copy';
    return `The slice ${unserved > 0 ? `is not served, and ${lacks}` : lacks}.`;
  }
  const some = `${whole} of ${slices.length} slices ${whole === 1 ? 'has' : 'have'}`;
  const all = `All ${slices.length} slices have`;
  const parts = [`${whole === slices.length ? all : some} every copy`];
  if (joining > 0)
    parts.push(`${joining} ${joining === 1 ? 'is' : 'are'} being brought up to date`);
  if (unserved > 0) parts.push(`${unserved} ${unserved === 1 ? 'is' : 'are'} not served`);
  return `${parts.join(', ')}.`;
}
