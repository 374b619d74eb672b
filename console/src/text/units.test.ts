import { expect, test } from 'vitest';
import {
  bytes,
  count,
  latency,
  milliseconds,
  moment,
  parseBytes,
  parseSpan,
  percent,
  span,
} from './units';

test('bytes have three digits that matter, and never 1024 of a unit', () => {
  expect(bytes(0)).toBe('0\u00a0B');
  expect(bytes(4096)).toBe('4\u00a0KiB');
  expect(bytes(1536 * 1024)).toBe('1.5\u00a0MiB');
  expect(bytes(1024 ** 3 - 1)).toBe('1\u00a0GiB');
  expect(bytes(16_041_115_648)).toBe('14.9\u00a0GiB');
  expect(bytes(100 * 1024 ** 3)).toBe('100\u00a0GiB');
});

test('a part of a whole is never said to be nothing or all', () => {
  expect(percent(0, 10)).toBe('0\u00a0%');
  expect(percent(1, 1_000_000)).toBe('<\u00a00.1\u00a0%');
  expect(percent(999_999, 1_000_000)).toBe('>\u00a099.9\u00a0%');
  expect(percent(10, 10)).toBe('100\u00a0%');
  expect(percent(1, 0)).toBe('0\u00a0%');
});

test('time spans go by their largest part', () => {
  expect(span(0.4)).toBe('0\u00a0s');
  expect(span(119)).toBe('119\u00a0s');
  expect(span(600)).toBe('10\u00a0min');
  expect(span(3 * 3600 + 1200)).toBe('3\u00a0h 20\u00a0min');
  expect(span(2 * 86_400 + 4 * 3600)).toBe('2\u00a0d 4\u00a0h');
  expect(milliseconds(350)).toBe('350\u00a0ms');
  expect(milliseconds(1250)).toBe('1.25\u00a0s');
});

test('counts and latencies change their unit where the next one reads better', () => {
  expect(count(950)).toBe('950');
  expect(count(999.7)).toBe('1\u00a0k');
  expect(count(12_345)).toBe('12.3\u00a0k');
  expect(latency(0)).toBe('< 1\u00a0µs');
  expect(latency(21.6)).toBe('22\u00a0µs');
  expect(latency(87)).toBe('87\u00a0µs');
  expect(latency(1200)).toBe('1.2\u00a0ms');
  expect(latency(2_000_000)).toBe('2\u00a0s');
});

test('sizes are typed with a unit that means the same to everybody', () => {
  expect(parseBytes('8GiB')).toBe(8 * 1024 ** 3);
  expect(parseBytes(' 1.5 tib ')).toBe(1.5 * 1024 ** 4);
  expect(parseBytes('4096 b')).toBe(4096);
  for (const text of [
    '',
    '-1',
    '1 x',
    '10',
    '4G',
    '4 GB',
    'GiB',
    '1,5\u00a0GiB',
    '9999999999\u00a0PiB',
  ]) {
    expect(parseBytes(text)).toBeNull();
  }
});

test('times are typed as one likes', () => {
  expect(parseSpan('60min')).toBe(3600);
  expect(parseSpan('7 d')).toBe(604_800);
  expect(parseSpan('90')).toBe(90);
  expect(parseSpan('soon')).toBeNull();
});

test('a moment of today is its time', () => {
  const now = new Date(2026, 10, 28, 12, 0, 0).getTime();
  expect(moment(now - 3600_000, now)).toBe('11:00:00');
  expect(moment(now - 86_400_000, now)).toBe('2026-11-27 12:00:00');
});
