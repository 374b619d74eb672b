import { expect, test } from 'vitest';
import { digests, negotiated, onOneNode } from './paths';

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
