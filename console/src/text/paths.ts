import type {
  Initiator,
  PathSession,
  PathState,
  ReservationType,
  TargetSession,
} from '../api/types';
import { bytes } from './units';
import type { Tone } from './words';

/** What hosts are told of a path, in words. */
export const PATH_STATES: Record<PathState, { word: string; tone: Tone; tip: string }> = {
  'active-optimized': {
    word: 'active, optimized',
    tone: 'good',
    tip: 'The short way: this node has half of the volume’s slices or more. Hosts use such paths first.',
  },
  'active-non-optimized': {
    word: 'active, not optimized',
    tone: 'good',
    tip: 'It takes the same commands, and hands most of them on to other nodes. Hosts use it when no short way is left.',
  },
  standby: {
    word: 'standby',
    tone: 'warn',
    tip: 'No way for reads and writes now, but the node knows the volume.',
  },
  unavailable: { word: 'unavailable', tone: 'bad', tip: 'No way for reads and writes now.' },
  offline: {
    word: 'offline',
    tone: 'bad',
    tip: 'No way, and nothing can be asked through it.',
  },
  transitioning: {
    word: 'transitioning',
    tone: 'warn',
    tip: 'On its way from one state to another: hosts ask again in a moment.',
  },
};

/** Before the node knows the volume's slices. */
export const PATH_UNKNOWN = {
  word: 'not known yet',
  tone: 'calm' as Tone,
  tip: 'The node does not know the volume’s slices yet.',
};

type TypeWords = { name: string; forbids: string };

/** What a reservation is called in SPC-4, and what it means. */
export const RESERVATIONS: Record<ReservationType, TypeWords> = {
  'write-exclusive': {
    name: 'Write Exclusive',
    forbids: 'Only the holder writes; everybody reads.',
  },
  'exclusive-access': {
    name: 'Exclusive Access',
    forbids: 'Only the holder reads and writes.',
  },
  'write-exclusive-registrants-only': {
    name: 'Write Exclusive – Registrants Only',
    forbids: 'Whoever is registered writes; everybody reads.',
  },
  'exclusive-access-registrants-only': {
    name: 'Exclusive Access – Registrants Only',
    forbids: 'Whoever is registered reads and writes, and nobody else.',
  },
  'write-exclusive-all-registrants': {
    name: 'Write Exclusive – All Registrants',
    forbids: 'Whoever is registered holds it and writes; everybody reads.',
  },
  'exclusive-access-all-registrants': {
    name: 'Exclusive Access – All Registrants',
    forbids: 'Whoever is registered holds it, reads and writes, and nobody else.',
  },
};

/** What initiator and target have agreed on, by the names of RFC 7143. */
export function negotiated(session: Pick<PathSession, 'parameters'>): [string, string][] {
  const agreed = session.parameters;
  const yes = (is: boolean) => (is ? 'Yes' : 'No');
  const digest = (is: boolean) => (is ? 'CRC32C' : 'None');
  return [
    ['HeaderDigest', digest(agreed.header_digest)],
    ['DataDigest', digest(agreed.data_digest)],
    ['MaxBurstLength', bytes(agreed.burst_bytes_max)],
    ['FirstBurstLength', bytes(agreed.first_burst_bytes_max)],
    ['MaxRecvDataSegmentLength', bytes(agreed.segment_bytes_max)],
    ['InitialR2T', yes(agreed.initial_r2t)],
    ['ImmediateData', yes(agreed.immediate_data)],
  ];
}

/** What is protected by a checksum on the way, in a word. */
export function digests(session: Pick<PathSession, 'parameters'>): string {
  const { header_digest: header, data_digest: data } = session.parameters;
  if (header && data) return 'header, data';
  return header ? 'header' : data ? 'data' : 'none';
}

/** Initiators that reach a volume through one node only: they stand still without it. */
export function onOneNode(sessions: Pick<PathSession, 'initiator' | 'volume' | 'portal'>[]) {
  const nodes = new Map<string, { initiator: string; volume: string; portals: Set<string> }>();
  for (const { initiator, volume, portal } of sessions) {
    const key = `${initiator} ${volume}`;
    const known = nodes.get(key) ?? { initiator, volume, portals: new Set() };
    known.portals.add(portal);
    nodes.set(key, known);
  }
  return [...nodes.values()].filter(({ portals }) => portals.size === 1);
}

/** An initiator that is logged in, and not on record. */
export type Guest = {
  name: string;
  sessions: number;
  portals: string[];
  addresses: string[];
  since_ms: number;
};

/** The initiators of sessions that are not among those on record. */
export function guests(
  sessions: Pick<TargetSession, 'initiator' | 'portal' | 'address' | 'since_ms'>[],
  recorded: Pick<Initiator, 'name'>[],
): Guest[] {
  // iSCSI names are the same in large and small letters (RFC 3722).
  const known = new Set(recorded.map(({ name }) => name.toLowerCase()));
  const found = new Map<string, typeof sessions>();
  for (const session of sessions) {
    if (known.has(session.initiator.toLowerCase())) continue;
    found.set(session.initiator, [...(found.get(session.initiator) ?? []), session]);
  }
  return [...found].map(([name, all]) => ({
    name,
    sessions: all.length,
    portals: [...new Set(all.map(({ portal }) => portal))].sort(),
    // Without the port, which is another one for each session.
    addresses: [...new Set(all.map(({ address }) => address.replace(/:\d+$/, '')))].sort(),
    since_ms: Math.min(...all.map(({ since_ms }) => since_ms)),
  }));
}
