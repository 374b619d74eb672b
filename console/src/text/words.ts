import type {
  Device,
  DeviceState,
  DeviceTier,
  Explanation,
  Health,
  Node,
  Policy,
  Protection,
  Settings,
  StallCause,
  Status,
  VolumeSummary,
  Wait,
} from '../api/types';
import { bytes, plural, span } from './units';

/** How something stands, for its colour and its sign. */
export type Tone = 'good' | 'warn' | 'bad' | 'calm';

export const HEALTH: Record<Health, { word: string; tone: Tone; tip: string }> = {
  healthy: { word: 'healthy', tone: 'good', tip: 'Every slice is served and has all its copies.' },
  degraded: {
    word: 'degraded',
    tone: 'warn',
    tip: 'Reads and writes go on, but copies are missing or not up to date.',
  },
  unavailable: {
    word: 'unavailable',
    tone: 'bad',
    tip: 'Some reads and writes are not answered now. Nothing is lost by that.',
  },
};

type PolicyWords = {
  title: string;
  copies: number;
  survives: string;
  costs: string;
  goesOn: string;
};

/** What a policy is worth, and what it costs. */
export const POLICIES: Record<Policy, PolicyWords> = {
  none: {
    title: 'One copy',
    copies: 1,
    survives: 'No failure. With the node or its disk the data is gone.',
    costs: 'Each byte takes one byte.',
    goesOn: 'Only while its node is up.',
  },
  mirror2: {
    title: 'Two copies',
    copies: 2,
    survives: 'Any one node or disk.',
    costs: 'Each byte takes two bytes; each write goes to two nodes.',
    goesOn: 'It goes on with one copy left.',
  },
  mirror3: {
    title: 'Three copies',
    copies: 3,
    survives: 'Any two nodes or disks: nothing is lost.',
    costs: 'Each byte takes three bytes; each write goes to three nodes.',
    goesOn:
      'It goes on with two copies, and stands still with one left rather than have only that.',
  },
  mirror4: {
    title: 'Four copies',
    copies: 4,
    survives: 'Any three nodes or disks: nothing is lost.',
    costs: 'Each byte takes four bytes; each write goes to four nodes.',
    goesOn:
      'It goes on with two copies, and stands still with one left rather than have only that.',
  },
};

export const STALL_CAUSES: Record<StallCause, { word: string; tip: string }> = {
  'node-lost': {
    word: 'a node did not answer',
    tip: 'It could not be reached, or said nothing for a fifth of a second or longer. Where that goes on, others take over what it led and do without its copies; events say so then.',
  },
  lease: {
    word: 'a lease',
    tip: 'A new primary had to wait until the old one could not serve any more.',
  },
  media: { word: 'a device', tip: 'A disk took long to answer.' },
  metadata: { word: 'the metadata', tip: 'What nodes agree on was not reached, or answered late.' },
  standstill: {
    word: 'the node stood still',
    tip: 'The process had no processor, or its machine slept.',
  },
  unknown: { word: 'not known', tip: 'None of the known causes was there at the time.' },
};

export const DEVICE_STATES: Record<DeviceState, { word: string; tone: Tone; tip: string }> = {
  'in-use': { word: 'in use', tone: 'good', tip: 'It takes data.' },
  draining: {
    word: 'draining',
    tone: 'calm',
    tip: 'What it holds goes to the other devices of its node.',
  },
  drained: { word: 'drained', tone: 'calm', tip: 'Nothing is on it any more: it can be removed.' },
  leaving: { word: 'leaving', tone: 'calm', tip: 'It is being removed.' },
  missing: { word: 'missing', tone: 'bad', tip: 'It was not there when the node started.' },
  lost: {
    word: 'lost',
    tone: 'bad',
    tip: 'It has failed. What was on it comes back from other nodes.',
  },
};

export const TIERS: Record<DeviceTier, string> = { flash: 'flash', capacity: 'capacity' };

export const TIER_TIPS: Record<DeviceTier, string> = {
  flash: 'Fast devices. Data goes there first, as long as there is room.',
  capacity: 'Large devices. Data goes there when flash has no room.',
};

/** What the number of a node's work counts. */
export const WORK_TIP =
  'What hosts have its replicas do in a second, as a mean over some minutes: each read and write, and each 64 KiB of them as one more.';

/** What the number of a node's fill counts: another one than those of its devices together, while hosts write. */
export const NODE_USED_TIP =
  'Pages that hold something, or are set aside for writes under way. While hosts write, its devices together may have less, as what is set aside is on none yet, or more, as a page that is written anew takes two places for a moment.';

/** What the number of a device's fill counts: of one that goes, or that is not there, it is what is to be brought. */
export function fillTip(device: Device): string {
  const { used_bytes, bytes: all } = device;
  if (device.is_absent) {
    return `${bytes(used_bytes)} are lacking because of all devices that the node does without; other nodes bring them.`;
  }
  if (device.state === 'draining') return `${bytes(used_bytes)} of pages are on it still.`;
  return `Pages take ${bytes(used_bytes)} of the ${bytes(all)} that it can hold.`;
}

/** How a device was, of which its node says nothing now: whether that is well, nobody knows. */
export function deviceWas({ state }: Device): { word: string; tone: Tone; tip: string } {
  const { word } = DEVICE_STATES[state];
  const tip = 'That is what its node said last. How it is now, only the node can say.';
  return { word: `was ${word}`, tone: 'calm', tip };
}

/** From when until when a command takes its time. */
export const COMMAND_SPAN =
  'From when its node had received all of it, data included, until its answer was handed to the network: what a host notices, but for the network between them, for what the node waits for the host, and for room that a write may have to wait for before its data is asked for.';

/** What the latency of a device is. */
export const LATENCY_TIP =
  'How long its operations took in the last minute: 99 of 100 no longer than this.';

/** How a node stands, in one word. */
export function nodeState(node: Node): { word: string; tone: Tone; tip: string } {
  if (node.state === 'down') {
    if (node.awaited_device) {
      return {
        word: 'waits for a device',
        tone: 'bad',
        tip: `It waits for ${node.awaited_device}.`,
      };
    }
    if (node.answers) {
      return { word: 'not ready', tone: 'bad', tip: 'It answers, but cannot be relied on.' };
    }
    if (node.stopped) {
      return { word: 'stopped', tone: 'warn', tip: 'It was told to stop, and does not answer.' };
    }
    return { word: 'down', tone: 'bad', tip: 'It does not answer.' };
  }
  switch (node.standing) {
    case 'waiting':
      return {
        word: 'not admitted',
        tone: 'calm',
        tip: 'It has registered, and takes nothing before it is admitted.',
      };
    case 'maintenance':
      return {
        word: 'maintenance',
        tone: 'calm',
        tip: 'It leads nothing, and is not rebuilt elsewhere.',
      };
    case 'draining':
      return node.is_drained
        ? { word: 'drained', tone: 'calm', tip: 'Nothing is on it any more: it can be removed.' }
        : { word: 'draining', tone: 'calm', tip: 'What it holds is being moved to other nodes.' };
    case 'removed':
      return { word: 'removed', tone: 'calm', tip: 'It is no part of the cluster any more.' };
    default:
      return {
        word: 'up',
        tone: 'good',
        tip: 'It answers, its devices are open, and it follows the metadata.',
      };
  }
}

/**
 * The cluster's health in one sentence. It speaks of `alarms` that nothing else tells of, too, or it would say that all
 * is well above what is not. Of what nobody tells any more it says that it was well, and not that it is.
 */
export function healthSentence(
  status: Status,
  alarms = 0,
  isLost = false,
): { tone: Tone; text: string } {
  const { tone, text } = ofVolumesAndNodes(status, isLost);
  if (alarms === 0) return { tone, text: `${text}.` };
  const more = alarms === 1 ? 'one alarm needs' : `${alarms} alarms need`;
  const isWell = tone === 'good' || tone === 'calm';
  return { tone: isWell ? 'warn' : tone, text: `${text}; ${more} attention.` };
}

/** The same in a word or two, for the side of every page: its sign and its word are those of the sentence. */
export function pulse(
  status: Status,
  alarms = 0,
  isLost = false,
): { tone: Tone; word: string; text: string } {
  const sentence = healthSentence(status, alarms, isLost);
  const isCalled = status.health !== 'healthy' || sentence.tone !== 'warn';
  const word = isCalled ? status.health : 'needs attention';
  return { ...sentence, word: sentence.tone === 'calm' ? `was ${word}` : word };
}

function ofVolumesAndNodes(status: Status, isLost: boolean): { tone: Tone; text: string } {
  const { volumes, nodes } = status;
  const down = nodes.total - nodes.up;
  const nodesDown =
    down === 0 ? '' : down === 1 ? '; one node is not up' : `; ${down} nodes are not up`;
  if (volumes.unavailable > 0) {
    const what = `${volumes.unavailable} of ${plural(volumes.total, 'volume')} cannot be used in full`;
    return { tone: 'bad', text: `${what}${nodesDown}` };
  }
  if (volumes.degraded > 0) {
    const lack = volumes.degraded === 1 ? 'lacks' : 'lack';
    const what = `Every volume is served; ${volumes.degraded} of ${volumes.total} ${lack} copies`;
    return { tone: 'warn', text: `${what}${nodesDown}` };
  }
  if (status.health !== 'healthy') {
    const what =
      volumes.total === 0 ? 'There is no volume yet' : 'Every volume is served with all its copies';
    const why = nodesDown || '; something needs attention';
    return { tone: status.health === 'unavailable' ? 'bad' : 'warn', text: `${what}${why}` };
  }
  const tone = isLost ? 'calm' : 'good';
  if (volumes.total === 0) {
    const is = isLost ? 'was' : 'is';
    return { tone, text: `${plural(nodes.up, 'node')} up; there ${is} no volume yet` };
  }
  const one = isLost ? 'was' : 'is';
  const more = isLost ? 'were' : 'are';
  const many = volumes.total === 2 ? 'Both volumes' : `All ${volumes.total} volumes`;
  const all = volumes.total === 1 ? `The volume ${one}` : `${many} ${more}`;
  return { tone, text: `${all} served, with every copy in place` };
}

/** How many things need attention: `alarms` are those that nothing else tells of. */
export function attentionCount(explanation: Explanation, status: Status, alarms = 0): number {
  const { metadata, nodes, volumes } = explanation;
  const findings = [metadata ?? [], ...[...nodes, ...volumes].map((about) => about.findings)];
  return alarms + status.alerts.length + findings.flat().length;
}

/** How long until every volume has all its copies, as the command line says it. */
export function untilProtected(
  protection: Protection,
  /** What is told of the time left, where that is steadier than what was asked last. */
  left: number | null | undefined = protection.work.seconds_left,
): {
  tone: Tone;
  name: string;
  text: string;
  waits: string[];
} {
  if (protection.protected) {
    return { tone: 'good', name: 'Protected', text: 'every volume', waits: [] };
  }
  const name = 'Time until protected';
  const waits = protection.waits_for.map(waitSentence);
  // What may be waited for is no time that it takes: it may be done sooner, and the copying comes after it.
  if (waits.length > 0) return { tone: 'warn', name, text: 'unknown', waits };
  if (left == null) return { tone: 'warn', name, text: 'not known yet', waits };
  return { tone: 'warn', name, text: `about ${span(Math.max(1, left))}`, waits };
}

export function waitSentence(wait: Wait): string {
  if (wait.seconds_left == null) return wait.what;
  return `${wait.what}, in ${span(wait.seconds_left)}`;
}

/** Why a volume of this policy cannot be made of these nodes now; null if it can. */
export function policyObstacle(policy: Policy, nodes: Node[]): string | null {
  const { copies } = POLICIES[policy];
  const places = new Set(
    nodes
      .filter((node) => node.state === 'up' && node.standing === 'active')
      .map((node) => node.failure_domain ?? `node ${node.name}`),
  );
  if (places.size >= copies) return null;
  return `needs ${copies} active nodes that do not fail together; there ${places.size === 1 ? 'is' : 'are'} ${places.size}`;
}

/** What volumes would fill if every block of them were written, beside what there is. */
export function overProvisioning(status: Status): number | null {
  return status.pool.bytes > 0 ? status.promised_bytes / status.pool.bytes : null;
}

export function usedPerVolume(volume: Pick<VolumeSummary, 'bytes' | 'used_bytes'>): number | null {
  if (volume.used_bytes == null || volume.bytes === 0) return null;
  return Math.min(1, volume.used_bytes / volume.bytes);
}

export type SettingKey = keyof Settings;
