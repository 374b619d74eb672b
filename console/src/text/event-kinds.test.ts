import { expect, test } from 'vitest';
import { EVENT_KINDS, eventText, eventTone, kindWords } from './event-kinds';

test('every kind has words of its own, and none stands as its code', () => {
  const words = Object.values(EVENT_KINDS).map(({ word }) => word);
  expect(new Set(words).size).toBe(words.length);
  for (const word of words) expect(word).toMatch(/^[A-Z][a-z]+(?: [a-z]+)*$/);
  expect(kindWords('of-a-newer-node' as never)).toBe(EVENT_KINDS.other);
});

test('what is over, back or well again is told from what begins', () => {
  const tone = (kind: string, severity: string) => eventTone({ kind, severity } as never);
  expect(tone('alarm-raised', 'warning')).toBe('warn');
  expect(tone('alarm-raised', 'error')).toBe('bad');
  for (const kind of ['alarm-cleared', 'alert-cleared', 'node-back', 'volume-health']) {
    expect(tone(kind, 'info')).toBe('good');
  }
  expect(tone('volume-health', 'warning')).toBe('warn');
  expect(tone('settings', 'info')).toBe('calm');
});

test('an alarm says the title of its kind, and one that is over what it was', () => {
  const kinds = [{ kind: 'node-lost', title: 'A node is lost' }];
  const detail = 'node-lost: it does not answer';
  const text = (kind: string, said = detail) => eventText({ kind, detail: said } as never, kinds);
  expect(text('alarm-raised')).toBe('A node is lost: it does not answer');
  expect(text('alarm-cleared')).toBe('A node is lost: it was “it does not answer”');
  expect(text('alarm-cleared', `${detail} - it has been well again for 10 s`)).toBe(
    'A node is lost: it was “it does not answer”, and has been well again for 10 s',
  );
  // What is over is not soon over, too.
  const well = 'it is well again, and over when that has lasted for 10 s';
  expect(text('alarm-cleared', `${detail} - ${well}`)).toBe(
    'A node is lost: it was “it does not answer”',
  );
  expect(text('alert-cleared', 'n2 is down')).toBe('it was “n2 is down”');
  // What is not known is told as it is, and what only looks like a code is none.
  expect(text('alarm-raised', 'clock: late')).toBe('clock: late');
  expect(text('sync-ended')).toBe(detail);
});
