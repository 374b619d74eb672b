import { expect, test } from 'vitest';
import type { Alarm, Explanation } from '../api/types';
import { noted, untold } from './attention';

function alarm(kind: string, subject: string, change: Partial<Alarm> = {}): Alarm {
  const words = { title: '', detail: '', meaning: '', action: '' };
  return { id: 1, kind, subject, severity: 'warning', raised_ms: 1, ...words, ...change };
}

function explanation(findings: Record<string, string[]>): Explanation {
  const of = (subject: string) =>
    Object.entries(findings)
      .filter(([key]) => key.startsWith(subject))
      .map(([key, kinds]) => ({
        [subject]: key.split(' ')[1],
        findings: kinds.map((kind) => ({ kind })),
      }));
  const metadata = (findings.metadata ?? []).map((kind) => ({ kind }));
  return { metadata, nodes: of('node'), volumes: of('volume') } as unknown as Explanation;
}

const kinds = (alarms: Alarm[]) => alarms.map((one) => one.kind);

test('what no finding tells of is told by its alarm, the critical ones first', () => {
  const all = [
    alarm('overcommitted', 'cluster'),
    alarm('clock-skew', 'node n1'),
    alarm('pool-almost-full', 'node n2', { severity: 'critical' }),
    alarm('of-a-newer-version', 'volume db'),
  ];
  expect(kinds(untold(all, explanation({})))).toEqual([
    'pool-almost-full',
    'overcommitted',
    'clock-skew',
    'of-a-newer-version',
  ]);
});

test('what a finding tells of is not told twice, and only if it is about the same', () => {
  const lost = [alarm('node-lost', 'node n1')];
  expect(untold(lost, explanation({ 'node n1': ['node-down'] }))).toEqual([]);
  expect(untold(lost, explanation({ 'node n2': ['node-down'] }))).toEqual(lost);
  expect(untold(lost, explanation({ 'node n1': ['draining'] }))).toEqual(lost);
  const device = [alarm('device-lost', 'device 2 of node n1')];
  expect(untold(device, explanation({ 'node n1': ['device-absent'] }))).toEqual([]);
  const stopped = [alarm('volume-stopped', 'volume db')];
  expect(untold(stopped, explanation({ 'volume db': ['writes-wait'] }))).toEqual([]);
  expect(untold(stopped, explanation({ 'volume db': ['syncing'] }))).toEqual(stopped);
  const member = [alarm('metadata-member-lost', 'metadata')];
  expect(untold(member, explanation({ metadata: ['metadata-member'] }))).toEqual([]);
  const full = [alarm('metadata-full', 'metadata')];
  expect(untold(full, explanation({ 'node n1': ['metadata-full'] }))).toEqual([]);
  // That it goes on for long is another thing than that it is so.
  const lasts = [alarm('maintenance-lasts', 'node n1'), alarm('sync-stuck', 'volume db')];
  const both = explanation({ 'node n1': ['maintenance'], 'volume db': ['syncing'] });
  expect(untold(lasts, both)).toEqual(lasts);
});

test('what is over, and what somebody knows of, needs no attention', () => {
  const known = alarm('overcommitted', 'cluster', {
    acknowledged: { by: 'user admin', at_ms: 2, note: '' },
  });
  const over = alarm('clock-skew', 'node n1', { cleared_ms: 3 });
  expect(untold([known, over], explanation({}))).toEqual([]);
  expect(noted([known, over, { ...known, cleared_ms: 3 }])).toBe(1);
});

test('what is well again needs nobody', () => {
  const detail = 'it does not answer - it is well again, and over when that has lasted for 10 s';
  const lost = (change: Partial<Alarm>) =>
    untold([alarm('node-lost', 'node n1', change)], explanation({}));
  expect(kinds(lost({ detail: 'it does not answer' }))).toEqual(['node-lost']);
  expect(lost({ detail })).toEqual([]);
});
