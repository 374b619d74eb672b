import type { Alarm, Explanation, Finding } from '../api/types';
import { isWell } from './alarms';

type Kind = Finding['kind'];

/** What a finding about the same node, volume or metadata has to be for an alarm to say nothing beside it. */
const SAID_BY: Record<string, readonly Kind[]> = {
  'pool-filling': ['no-room'],
  'pool-low': ['no-room'],
  'pool-almost-full': ['no-room'],
  'node-lost': ['node-down', 'devices-failed', 'not-registered', 'not-registered-yet'],
  'device-lost': ['device-absent', 'device-detached', 'devices-failed'],
  'volume-degraded': [
    'not-served',
    'writes-wait',
    'node-down',
    'node-silent',
    'syncing',
    'bad-blocks',
    'no-place',
  ],
  'volume-stopped': ['not-served', 'writes-wait'],
  'bad-blocks': ['bad-blocks'],
  'metadata-member-lost': ['metadata-member'],
  'metadata-lost': ['metadata-lost'],
  'metadata-full': ['metadata-full'],
};

/** The findings about what an alarm is about. */
function about(subject: string, explanation: Explanation): Finding[] {
  const owner = subject.replace(/^device \d+ of /, '');
  const { nodes, volumes } = explanation;
  // Of the metadata nodes say what they see of it.
  if (owner === 'metadata') {
    return [...(explanation.metadata ?? []), ...nodes.flatMap((node) => node.findings)];
  }
  return [
    ...nodes.filter(({ node }) => owner === `node ${node}`),
    ...volumes.filter(({ volume }) => owner === `volume ${volume}`),
  ].flatMap(({ findings }) => findings);
}

/**
 * Alarms that last, of which nobody has taken note, and that no finding tells of already: findings say more, as what
 * is waited for. What is well again needs nobody. Critical ones are first.
 */
export function untold(alarms: Alarm[], explanation: Explanation): Alarm[] {
  const left = alarms.filter((alarm) => {
    if (alarm.cleared_ms != null || alarm.acknowledged != null || isWell(alarm)) return false;
    const said = SAID_BY[alarm.kind] ?? [];
    return !about(alarm.subject, explanation).some((finding) => said.includes(finding.kind));
  });
  return left.sort((one, other) => Number(isCritical(other)) - Number(isCritical(one)));
}

export function isCritical(alarm: Alarm): boolean {
  return alarm.severity === 'critical';
}

/** Alarms that last, and that somebody knows of. */
export function noted(alarms: Alarm[]): number {
  return alarms.filter((alarm) => alarm.cleared_ms == null && alarm.acknowledged != null).length;
}
