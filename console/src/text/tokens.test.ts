import { expect, test } from 'vitest';
import { expiry } from './tokens';

const DAY = 86_400_000;
const NOW = new Date(2026, 10, 1, 12).getTime();
const at = (days: number) => expiry({ expires_ms: NOW + days * DAY }, NOW);

test('a token that is about to expire is marked, from a fortnight before on', () => {
  expect(at(15)).toMatchObject({ word: '2026-11-16 12:00:00', tone: 'good' });
  expect(at(14)).toMatchObject({ word: 'in 14\u00a0d', tone: 'warn' });
  expect(at(0.5)).toMatchObject({ word: 'in 12\u00a0h', tone: 'warn' });
  expect(at(0)).toMatchObject({ word: 'expired', tone: 'bad' });
});
