import { afterEach, expect, test, vi } from 'vitest';
import { note, now } from './clock';
import { readHistory } from './history';

afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
  note(new Date().toUTCString());
});

test('the time is that of the node, where the browser is set wrong', () => {
  vi.useFakeTimers({ now: 10_000_000 });
  for (const ahead of [-3_600_000, 5_000]) {
    note(new Date(10_000_000 + ahead).toUTCString());
    expect(now()).toBe(10_000_000 + ahead);
  }
  // What says nothing changes nothing.
  note(null);
  note('yesterday');
  expect(now()).toBe(10_005_000);
  // It is told in whole seconds.
  note(new Date(9_999_000).toUTCString());
  expect(now()).toBe(10_000_000);
});

test('history is asked for by the time of the node', async () => {
  vi.useFakeTimers({ now: 10_000_000 });
  const asked: URLSearchParams[] = [];
  vi.stubGlobal('fetch', async (request: Request) => {
    asked.push(new URL(request.url).searchParams);
    const headers = { date: new Date(4_000_000).toUTCString() };
    return Response.json({ points: [], silent: [] }, { headers });
  });
  const read = () => readHistory({ of: 'cluster' }, 300, new AbortController().signal);
  await read();
  await read();
  expect(asked.map((it) => it.get('until_ms'))).toEqual(['10000000', '4000000']);
  expect(asked[1]?.get('from_ms')).toBe('3700000');
});
