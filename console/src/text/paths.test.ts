import { expect, test } from 'vitest';
import { digests, guests, negotiated, onOneNode } from './paths';

const parameters = {
  header_digest: true,
  data_digest: false,
  burst_bytes_max: 1024 * 1024,
  first_burst_bytes_max: 65_536,
  segment_bytes_max: 8192,
  initial_r2t: false,
  immediate_data: true,
};

test('what was agreed on is called as the standard calls it', () => {
  expect(Object.fromEntries(negotiated({ parameters }))).toEqual({
    HeaderDigest: 'CRC32C',
    DataDigest: 'None',
    MaxBurstLength: '1\u00a0MiB',
    FirstBurstLength: '64\u00a0KiB',
    MaxRecvDataSegmentLength: '8\u00a0KiB',
    InitialR2T: 'No',
    ImmediateData: 'Yes',
  });
});

test('digests are told by what they are of', () => {
  const of = (header_digest: boolean, data_digest: boolean) =>
    digests({ parameters: { ...parameters, header_digest, data_digest } });
  expect([of(true, true), of(true, false), of(false, true), of(false, false)]).toEqual([
    'header, data',
    'header',
    'data',
    'none',
  ]);
});

test('two sessions with one node are one way', () => {
  const on = (initiator: string, volume: string, portal: string) => ({ initiator, volume, portal });
  const alone = onOneNode([
    on('a', 'v', 'n1'),
    on('a', 'v', 'n1'),
    on('a', 'w', 'n1'),
    on('a', 'w', 'n2'),
    on('b', 'v', 'n2'),
  ]);
  expect(alone.map(({ initiator, volume, portals }) => [initiator, volume, [...portals]])).toEqual([
    ['a', 'v', ['n1']],
    ['b', 'v', ['n2']],
  ]);
});

test('who is logged in, and not on record, is told once with all sessions', () => {
  const session = (initiator: string, portal: string, port: number, since_ms = 5) => ({
    ...{ initiator, portal, since_ms },
    address: `10.0.0.1:${port}`,
  });
  const all = [
    session('iqn.2026-11.example:h1', 'n1', 1),
    session('iqn.2026-11.example:h2', 'n2', 2),
    session('iqn.2026-11.example:h2', 'n1', 3, 4),
  ];
  expect(guests(all, [{ name: 'iqn.2026-11.EXAMPLE:h1' }])).toEqual([
    {
      name: 'iqn.2026-11.example:h2',
      sessions: 2,
      portals: ['n1', 'n2'],
      addresses: ['10.0.0.1'],
      since_ms: 4,
    },
  ]);
});
