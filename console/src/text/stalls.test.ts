import { expect, test } from 'vitest';
import type { Stall } from '../api/types';
import { toldOnce } from './stalls';

const stall = (initiator: string | null, over: Partial<Stall> = {}): Stall => ({
  volume: 'db',
  portal: 'n1',
  began_ms: 10_000,
  length_ms: 400,
  waiting_max: 3,
  served: true,
  lasting: false,
  cause: 'lease',
  initiator,
  ...over,
});

const who = (stalls: Stall[]) => toldOnce(stalls).map(({ initiator }) => initiator);

test('a stall of the one host that was there is told once, with the host', () => {
  expect(who([stall(null), stall('host-1')])).toEqual(['host-1']);
  expect(who([stall('host-1', { length_ms: 401, began_ms: 9_999 }), stall(null)])).toEqual([
    'host-1',
  ]);
});

test('what is not the same is told', () => {
  const both = [stall(null), stall('host-1'), stall('host-2')];
  expect(who(both)).toEqual([null, 'host-1', 'host-2']);
  for (const other of [
    { began_ms: 8_000 },
    { length_ms: 2_000 },
    { lasting: true },
    { portal: 'n2' },
    { volume: 'sql' },
  ]) {
    expect(who([stall(null), stall('host-1', other)])).toEqual([null, 'host-1']);
  }
  // One row of everybody's stands for one stall, and not for the next one.
  const next = { began_ms: 20_000 };
  expect(who([stall(null), stall('host-1'), stall(null, next), stall('host-1', next)])).toEqual([
    'host-1',
    'host-1',
  ]);
});
