import type { AlarmKind, Status } from '../api/types';
import { bytes, percent } from './units';

/** What of the pool volumes are promised, if they are promised so much more. */
export type Promised = {
  /** In one line. */
  text: string;
  /** What follows where that is all of the pool, or more than there is; null where it is less. */
  warning: string | null;
};

/** The alarms that tell how full a node is, the first one first. */
const FILLING = ['pool-filling', 'pool-low', 'pool-almost-full'];

/** `more`: bytes that are promised beside what is, with all copies. Null where there is no pool to compare it with. */
export function promised(
  { pool, promised_bytes, nodes }: Pick<Status, 'pool' | 'promised_bytes' | 'nodes'>,
  more: number,
  kinds: AlarmKind[] | undefined,
): Promised | null {
  if (pool.bytes <= 0) return null;
  const all = promised_bytes + more;
  const part = percent(all, pool.bytes);
  const text = `${part} of the pool: ${bytes(all)} of ${bytes(pool.bytes)}, with all copies and all volumes`;
  if (all < pool.bytes) return { text, warning: null };
  const away = nodes.total - nodes.up;
  const warning = [
    `All volumes together are promised ${part} of the pool then. That is allowed, for room is taken only when data is written.`,
    'When a node has no room left, writes that need some are refused on every volume with a copy on it, not only on this one; what is written stays readable and can be overwritten.',
    told(kinds),
    away > 0
      ? `The room of ${away === 1 ? 'the node that is' : `the ${away} nodes that are`} not up is not counted.`
      : '',
  ];
  return { text, warning: warning.filter((one) => one !== '').join(' ') };
}

/** When somebody is told that the room ends, as it is set. */
function told(kinds: AlarmKind[] | undefined): string {
  if (kinds === undefined) return '';
  const at = FILLING.map((code) => kinds.find(({ kind, off }) => kind === code && !off))
    .filter((kind) => kind !== undefined)
    .map(({ threshold }) => String(threshold.set));
  const last = at.pop();
  if (last === undefined) return 'All alarms about that are off.';
  const times = at.length === 0 ? last : `${at.join(', ')} and ${last}`;
  return `Alarms tell of it when a node is ${times}\u00a0% full.`;
}
