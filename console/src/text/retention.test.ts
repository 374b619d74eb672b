import { expect, test } from 'vitest';
import type { NodeRetention, Retention } from '../api/retention';
import { changed, parseMib, reach, rowsOf } from './retention';

const now = { audit_mib: 32, events_mib: 16, nodes: [], silent: [] } as Retention;

test('sizes are whole mebibytes within the bounds', () => {
  expect([parseMib('64 MiB'), parseMib('2MiB'), parseMib('128 MiB')]).toEqual([64, 2, 128]);
  for (const bad of ['1 MiB', '1.5 MiB', '129 MiB', '1 GiB', '64 KiB', 'much', ''])
    expect(parseMib(bad)).toBeNull();
});

test('only what is another value is sent, and nothing that is not understood', () => {
  expect(changed(now, { audit_mib: '32 MiB', events_mib: '16\u00a0MiB' })).toEqual({});
  expect(changed(now, { audit_mib: '0.0625 GiB', events_mib: '16 MiB' })).toEqual({
    audit_mib: 64,
  });
  expect(changed(now, { audit_mib: '64 MiB', events_mib: 'less' })).toBeNull();
  // What is shown rounded is not changed by being looked at.
  expect(changed({ ...now, audit_mib: 1025 }, { audit_mib: '1 GiB' })).toEqual({});
});

test('each node tells what it keeps, and how far back that reaches', () => {
  const log = { bytes: 3, bytes_max: 10, oldest_ms: 1_000_000 };
  const resolution = (step_seconds: number, oldest_ms: number | null) => ({
    step_seconds,
    kept_seconds: 3600,
    oldest_ms,
  });
  const nodes: NodeRetention[] = [
    {
      name: 'n1',
      node: 1,
      audit: { ...log, bytes: 30 },
      events: log,
      history: {
        bytes: 7,
        bytes_max: 512,
        resolutions: [resolution(1, 1_000_000), resolution(300, null)],
      },
    },
    { name: 'n2', node: 2, audit: null, events: null, history: null },
  ];
  const rows = rowsOf(nodes);
  expect(rows.map((row) => `${row.node} ${row.what} ${row.bytes} ${row.bytesMax}`)).toEqual([
    'n1 Audit log 30 10',
    'n1 Events 3 10',
    'n1 Performance history, each 1\u00a0s 7 512',
    'n1 Performance history, each 5\u00a0min null null',
    'n2 Audit log null null',
    'n2 Events null null',
    'n2 Performance history null null',
  ]);
  expect(rows[0]?.note).toContain('more than is to be kept');
  expect(rows[1]?.note).not.toContain('more than');
  const told = rows.slice(1, 4).map((row) => reach(row, 1_060_000));
  expect(told.map((it) => it.text)).toEqual(['60\u00a0s', '60\u00a0s', 'none yet']);
  expect(told[1]?.tip).toContain('kept for 60\u00a0min');
  expect(told[2]?.tip).toContain('none yet');
  expect(rows.slice(4).map((row) => reach(row).text)).toEqual(Array(3).fill('none, or not told'));
  // Beside its nodes a demo keeps an audit log, and nothing else.
  const demo = { name: 'demo', node: 0, audit: log, events: null, history: null };
  expect(rowsOf([demo]).map((row) => row.what)).toEqual(['Audit log']);
});
