import { now as clock } from '../api/clock';
import type {
  KeptHistory,
  KeptLog,
  NodeRetention,
  Retention,
  RetentionChange,
} from '../api/retention';
import { isSame } from './typed';
import { bytes, moment, parseBytes, span } from './units';

export type Bound = keyof RetentionChange;

const MIB = 1024 ** 2;
export const LEAST_MIB = 2;
export const GREATEST_MIB = 128;

export function sizeOf(mib: number): string {
  return bytes(mib * MIB);
}

/** Whole MiB within the bounds, as somebody has typed them; null if they are none. */
export function parseMib(text: string): number | null {
  const mib = (parseBytes(text) ?? Number.NaN) / MIB;
  return Number.isInteger(mib) && mib >= LEAST_MIB && mib <= GREATEST_MIB ? mib : null;
}

/** What was typed, as a change of what there is; null if something of it is not understood. */
export function changed(
  now: Retention,
  typed: Partial<Record<Bound, string>>,
): RetentionChange | null {
  const change: RetentionChange = {};
  for (const bound of ['audit_mib', 'events_mib'] as const) {
    const text = typed[bound];
    // A value that is shown rounded is not changed by being looked at.
    if (text === undefined || isSame(text, sizeOf(now[bound]))) continue;
    const mib = parseMib(text);
    if (mib === null) return null;
    if (mib !== now[bound]) change[bound] = mib;
  }
  return change;
}

/** What a node keeps of something. */
export type KeptRow = {
  node: string;
  what: string;
  bytes: number | null;
  bytesMax: number | null;
  /** The same, of rows that share it with the one above, so that they stay below it however they are sorted. */
  shared?: { bytes: number; bytesMax: number };
  /** Why it may be more, or less, than one expects. */
  note: string;
  /** Null where there is none yet, or nobody tells. */
  oldestMs: number | null;
  /** For how long it is kept at most, where that is bounded by time as well. */
  keptSeconds: number | null;
  /** The node tells of it. */
  isTold: boolean;
};

export function rowsOf(nodes: NodeRetention[]): KeptRow[] {
  return nodes.flatMap((node) => {
    const rows = [
      logRow(node.name, 'Audit log', node.audit),
      logRow(node.name, 'Events', node.events),
      ...historyRows(node.name, node.history),
    ];
    // A demo keeps beside its nodes what was done through its own address, and nothing else.
    return node.node === 0 ? rows.filter(({ isTold }) => isTold) : rows;
  });
}

function logRow(node: string, what: string, kept: KeptLog | null | undefined): KeptRow {
  const isOver = kept ? kept.bytes > kept.bytes_max : false;
  return {
    node,
    what,
    bytes: kept?.bytes ?? null,
    bytesMax: kept?.bytes_max ?? null,
    note: isOver
      ? 'Bytes of its files. It is more than is to be kept since that was made less: the file that is too long goes when the next one is full.'
      : 'Bytes of its files on this node: the one that is written, and the one before it.',
    oldestMs: kept?.oldest_ms ?? null,
    keptSeconds: null,
    isTold: kept != null,
  };
}

function historyRows(node: string, history: KeptHistory | null | undefined): KeptRow[] {
  const row = {
    node,
    note: 'Bytes of all files of the history on this node, of every resolution.',
  };
  if (!history) {
    const none = { bytes: null, bytesMax: null, oldestMs: null, keptSeconds: null };
    return [{ ...row, ...none, what: 'Performance history', isTold: false }];
  }
  return history.resolutions.map((it, place) => ({
    ...row,
    what: `Performance history, each ${span(it.step_seconds)}`,
    // All resolutions share one bound: it is told once.
    bytes: place === 0 ? history.bytes : null,
    bytesMax: place === 0 ? history.bytes_max : null,
    shared: { bytes: history.bytes, bytesMax: history.bytes_max },
    oldestMs: it.oldest_ms ?? null,
    keptSeconds: it.kept_seconds,
    isTold: true,
  }));
}

/** How far back something reaches. */
export function reach(row: KeptRow, now = clock()): { text: string; tip: string } {
  if (!row.isTold) {
    return {
      text: 'none, or not told',
      tip: 'The node has none, or it cannot be read, or does not answer.',
    };
  }
  const most =
    row.keptSeconds === null
      ? 'It is kept as long as there is room for it.'
      : `It is kept for ${span(row.keptSeconds)}, if there is room for so much.`;
  if (row.oldestMs === null) return { text: 'none yet', tip: `There is none yet. ${most}` };
  const seconds = Math.max(0, (now - row.oldestMs) / 1000);
  return { text: span(seconds), tip: `The oldest is of ${moment(row.oldestMs, now)}. ${most}` };
}
