import type { AlarmKind, Event } from '../api/types';
import { seenIn } from './alarms';
import type { Tone } from './words';

/** What is told of an event, in words: its kind, whether something is over with it, and what it says. */

type Kind = Event['kind'];

export type KindWords = {
  word: string;
  /** Something that was wrong is not any more. */
  isOver?: true;
};

/** All that there are: a kind that the interface has, and that has no words here, does not compile. */
export const EVENT_KINDS: Record<Kind, KindWords> = {
  began: { word: 'Listening began' },
  gap: { word: 'Something may be missing' },
  'cluster-health': { word: 'Health of the cluster' },
  'volume-health': { word: 'Health of a volume' },
  'volume-created': { word: 'Volume made' },
  'volume-grown': { word: 'Volume grown' },
  'volume-access': { word: 'Volume for others' },
  primaries: { word: 'Slices led by other nodes' },
  'volume-deleted': { word: 'Volume deleted' },
  'node-lost': { word: 'Node lost' },
  'node-stopped': { word: 'Node stopped' },
  'node-back': { word: 'Node back', isOver: true },
  'node-standing': { word: 'Part of a node' },
  'device-lost': { word: 'Device lost' },
  'device-state': { word: 'State of a device' },
  'sync-began': { word: 'Sync began' },
  'sync-ended': { word: 'Sync ended' },
  settings: { word: 'Settings changed' },
  'alert-raised': { word: 'Alert' },
  'alert-cleared': { word: 'Alert over', isOver: true },
  'alarm-raised': { word: 'Alarm raised' },
  'alarm-acknowledged': { word: 'Alarm noted' },
  'alarm-cleared': { word: 'Alarm over', isOver: true },
  'alarm-told': { word: 'Receivers told' },
  'alarm-untold': { word: 'Receivers not told' },
  steering: { word: 'Steering taken up' },
  other: { word: 'Something else' },
};

/** A kind that a newer node has told is something else. */
export function kindWords(kind: Kind): KindWords {
  return EVENT_KINDS[kind] ?? EVENT_KINDS.other;
}

/** The sign of what is over, or well again: good to see, and not one of many things that are good to know. */
export function eventTone({ kind, severity }: Pick<Event, 'kind' | 'severity'>): Tone {
  if (severity !== 'info') return severity === 'error' ? 'bad' : 'warn';
  // A health of no weight is that of what is healthy.
  const isWell = kind === 'cluster-health' || kind === 'volume-health';
  return isWell || kindWords(kind).isOver ? 'good' : 'calm';
}

/** The code of an alarm's kind, before what was seen. */
const CODE = /^([a-z][a-z-]*): (?=.)/;

/**
 * What an event says: of an alarm with the title of its kind, where that is known, in place of the code; of what is over that it was so,
 * for the interface tells what was seen when it began, in the same words.
 */
export function eventText(
  { kind, detail }: Pick<Event, 'kind' | 'detail'>,
  kinds: Pick<AlarmKind, 'kind' | 'title'>[] = [],
): string {
  const code = kind.startsWith('alarm-') ? CODE.exec(detail)?.[1] : undefined;
  const title = kinds.find((one) => one.kind === code)?.title;
  const seen = title === undefined ? detail : detail.slice(detail.indexOf(': ') + 2);
  const isPast = kind === 'alarm-cleared' || kind === 'alert-cleared';
  const { what, over } = seenIn(seen);
  const was = `it was “${what}”${over ? `, and ${over}` : ''}`;
  return `${title === undefined ? '' : `${title}: `}${isPast ? was : seen}`;
}
