import { expect, test } from 'vitest';
import type { Settings } from '../api/types';
import { changed } from './settings';

const now: Settings = {
  repair_delay_seconds: 3600,
  rebalance: true,
  background_slowdown_percent: 10,
  background_floor: 16 * 1024 ** 2,
  scrub_interval_seconds: 604_800,
  scrub_rate: 64 * 1024 ** 2,
};

test('only what is another value is sent', () => {
  expect(changed(now, {}, null)).toEqual({});
  expect(changed(now, { repair_delay_seconds: '60 min' }, true)).toEqual({});
  const typed = {
    repair_delay_seconds: '30 min',
    scrub_interval_seconds: 'never',
    scrub_rate: '128 MiB/s',
  };
  expect(changed(now, typed, false)).toEqual({
    repair_delay_seconds: 1800,
    scrub_interval_seconds: 0,
    scrub_rate: 128 * 1024 ** 2,
    rebalance: false,
  });
});

test('a value that is shown rounded is not changed by being looked at', () => {
  const odd = { ...now, scrub_rate: 100_000_000 };
  for (const shown of ['95.4 MiB/s', '95.4\u00a0MiB/s']) {
    expect(changed(odd, { scrub_rate: shown }, null)).toEqual({});
  }
});

test('what is not understood is not sent', () => {
  expect(changed(now, { repair_delay_seconds: 'soon' }, null)).toBeNull();
});
