import type { Task, TaskKind } from '../api/types';

/** Long work under way, in words. */

const KINDS: Record<TaskKind, { word: string; tip: string }> = {
  creation: { word: 'creation', tip: 'A volume is made.' },
  sync: { word: 'sync', tip: 'A copy that was away is brought up to date.' },
  move: {
    word: 'move',
    tip: 'A copy is made where there was none: to even out what nodes hold, or in place of one that is lost or has to go.',
  },
  'node-drain': { word: 'node drain', tip: 'Everything on the node moves away.' },
  'device-drain': { word: 'device drain', tip: 'Everything on the device moves to others.' },
  scrub: { word: 'scrub', tip: 'All of the volume is read, and its copies are compared.' },
  other: { word: 'other work', tip: 'This version of the console does not know it.' },
};

/** What is done. A kind that a newer node has told is other work. */
export function taskKind(task: Task): { word: string; tip: string } {
  return KINDS[task.kind] ?? KINDS.other;
}

/** The part of it that is done, 0 to 1; null where nobody keeps how much there was. */
export function partDone({ bytes_done: done, bytes_total: total }: Task): number | null {
  if (done == null || total == null || total === 0) return null;
  return Math.min(1, done / total);
}

/** Slice 9 comes before slice 10. */
const NAMES = new Intl.Collator('en', { numeric: true });

/** What is done first, what waits last; of each, what takes longest first, for that is what one waits for. */
export function byWaiting(tasks: Task[]): Task[] {
  const left = ({ seconds_left }: Task) => seconds_left ?? -1;
  return [...tasks].sort(
    (one, other) =>
      Number(one.is_waiting ?? false) - Number(other.is_waiting ?? false) ||
      left(other) - left(one) ||
      NAMES.compare(one.id, other.id),
  );
}

/** How many there are of each sort. */
export function tasksSentence(tasks: Task[]): string {
  const waiting = tasks.filter((task) => task.is_waiting).length;
  const active = tasks.length - waiting;
  if (waiting === 0) return `${active} under way`;
  const wait = `${waiting} ${waiting === 1 ? 'waits' : 'wait'}`;
  return active === 0 ? wait : `${active} under way, ${wait}`;
}
