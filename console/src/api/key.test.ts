import { expect, test } from 'vitest';
import { DoneInPart, Problem, Unreached } from './client';
import { freshKey, keyAfter, wasSent } from './key';

const refused = (status: number) => new Problem({ title: '', detail: '', status });

test('keys are those that the interface takes, and differ', () => {
  expect(freshKey()).toMatch(/^[0-9a-f]{32}$/);
  expect(freshKey()).not.toBe(freshKey());
});

test('what may have been done keeps its key, and what was answered does not', () => {
  expect(keyAfter(null, 'k')).toBe('k');
  expect(keyAfter(new Unreached('no answer'), 'k')).toBe('k');
  // What the console says itself where there was no answer.
  expect(keyAfter(refused(0), 'k')).toBe('k');
  expect(keyAfter(refused(409), 'k')).not.toBe('k');
});

test('what was refused was not sent, unless it was what goes with it', () => {
  const sent = (error: Error | null) => wasSent({ isIdle: false, error });
  expect(wasSent({ isIdle: true, error: null })).toBe(false);
  for (const error of [null, new Unreached('no answer'), refused(0), refused(503)]) {
    expect(sent(error)).toBe(true);
  }
  expect(sent(refused(409))).toBe(false);
  const type = 'urn:holdfast:problem:busy';
  expect(sent(new Problem({ title: '', detail: '', status: 503, type }))).toBe(false);
  expect(sent(new DoneInPart({ title: '', detail: '', status: 409 }))).toBe(true);
});
