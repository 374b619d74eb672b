import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { act, cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { queryClient } from '../api/queries';
import type { Event, EventList } from '../api/types';
import { Events } from './events';

const event = (id: string, at_ms: number, more: Partial<Event> = {}): Event => ({
  id,
  at_ms,
  kind: 'node-lost',
  severity: 'warning',
  subject: `node of ${id}`,
  detail: 'down',
  ...more,
});

/** A stream that tells what a test says. */
class Stream extends EventTarget {
  static last: Stream | null = null;
  static readonly CLOSED = 2;
  readyState = 1;
  constructor() {
    super();
    Stream.last = this;
  }
  close() {}
  tell(one: Event) {
    act(() => {
      this.dispatchEvent(new MessageEvent(one.kind, { data: JSON.stringify(one) }));
    });
  }
}

let asked: URL[] = [];

/** What is asked for beside the log: titles of kinds, and what there is. */
const BESIDE: Record<string, unknown> = {
  '/api/v1/alarm-kinds': { kinds: [{ kind: 'node-lost', title: 'A node is lost' }] },
  '/api/v1/volumes': { volumes: [{ name: 'db' }] },
  '/api/v1/nodes': { nodes: [{ name: 'n2' }] },
};
const beside = ({ pathname }: URL) => {
  const answer = BESIDE[pathname];
  return answer ? Response.json(answer) : null;
};

/** What the log answers, by what it is asked. */
function answers(answer: (query: URLSearchParams) => EventList | null) {
  vi.stubGlobal('fetch', async (request: Request) => {
    const url = new URL(request.url);
    const other = beside(url);
    if (other) return other;
    asked.push(url);
    const told = answer(url.searchParams);
    if (told) return Response.json(told);
    return Response.json(
      { title: 'unavailable', detail: 'the metadata is away', status: 503 },
      { status: 503 },
    );
  });
}

function shown() {
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <Events />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

const subjects = () =>
  screen.queryAllByRole('listitem').map((item) => item.querySelector('strong')?.textContent);

beforeEach(() => {
  asked = [];
  vi.stubGlobal('EventSource', Stream);
});

afterEach(() => {
  vi.useRealTimers();
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('the past is there, older on demand, and what changes comes on top once', async () => {
  let newest = [event('c', 300_000), event('b', 200_000)];
  answers((query) =>
    query.get('after') === 'cursor'
      ? { events: [event('a', 100_000)], silent: [] }
      : { events: newest, next: 'cursor', silent: ['n3'] },
  );
  shown();
  await waitFor(() => expect(subjects()).toEqual(['node of c', 'node of b']));
  screen.getByText(/n3/);
  fireEvent.click(screen.getByRole('button', { name: 'Show older ones' }));
  await waitFor(() => expect(subjects()).toEqual(['node of c', 'node of b', 'node of a']));
  expect(screen.queryByRole('button')).toBeNull();
  const live = event('s-1', 400_000, { subject: 'volume db', kind: 'volume-health' });
  Stream.last?.tell(live);
  expect(subjects()).toEqual(['volume db', 'node of c', 'node of b', 'node of a']);
  // The log has it, too, by another name, and with another clock.
  newest = [{ ...live, id: 'd', at_ms: 400_900 }, ...newest];
  await act(() => queryClient.invalidateQueries({ queryKey: ['events'] }));
  await waitFor(() => expect(asked.length).toBe(3));
  await waitFor(() => expect(screen.getAllByText('volume db').length).toBe(1));
  expect(subjects()).toEqual(['volume db', 'node of c', 'node of b', 'node of a']);
});

test('whose part of an older piece is missing stays said while newer ones are whole', async () => {
  let silent: string[] = [];
  answers((query) =>
    query.get('after') === 'cursor'
      ? { events: [event('a', 100_000)], silent: ['n3'] }
      : { events: [event('b', 200_000)], next: 'cursor', silent },
  );
  shown();
  fireEvent.click(await screen.findByRole('button', { name: 'Show older ones' }));
  await screen.findByText(/1 node did not answer \(n3\)/);
  silent = ['n2'];
  await act(() => queryClient.invalidateQueries({ queryKey: ['events'] }));
  await screen.findByText(/2 nodes did not answer \(n2, n3\)/);
  silent = [];
  await act(() => queryClient.invalidateQueries({ queryKey: ['events'] }));
  await screen.findByText(/1 node did not answer \(n3\)/);
});

test('an older piece that comes after the list was begun anew is not put under it', async () => {
  let newest: EventList = { events: [event('b', 200_000)], next: 'after b', silent: [] };
  let late = (_: EventList) => {};
  const older = new Promise<EventList>((answer) => {
    late = answer;
  });
  vi.stubGlobal('fetch', async (request: Request) => {
    const url = new URL(request.url);
    const other = beside(url);
    if (other) return other;
    asked.push(url);
    const after = url.searchParams.get('after');
    if (after === 'after b') return Response.json(await older);
    if (after === 'after y') return Response.json({ events: [event('x', 800_000)], silent: [] });
    return Response.json(newest);
  });
  shown();
  fireEvent.click(await screen.findByRole('button', { name: 'Show older ones' }));
  // So much happens meanwhile that the newest piece does not reach down to what is known.
  newest = { events: [event('z', 1_000_000), event('y', 900_000)], next: 'after y', silent: [] };
  await act(() => queryClient.invalidateQueries({ queryKey: ['events'] }));
  await waitFor(() => expect(subjects()).toEqual(['node of z', 'node of y']));
  await act(async () => late({ events: [event('a', 100_000)], silent: [] }));
  expect(subjects()).toEqual(['node of z', 'node of y']);
  fireEvent.click(screen.getByRole('button', { name: 'Show older ones' }));
  await waitFor(() => expect(subjects()).toEqual(['node of z', 'node of y', 'node of x']));
});

test('the log is read again while events come without a pause, and where the stream begins', async () => {
  vi.useFakeTimers();
  const pass = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));
  answers(() => ({ events: [event('b', 2)], silent: [] }));
  shown();
  await pass(100);
  expect(asked.length).toBe(1);
  for (let step = 0; step < 18; step += 1) {
    Stream.last?.tell(event(`s-${step}`, 1_000 + step));
    await pass(500);
  }
  // In nine seconds, in which nothing is read for any other reason.
  expect(asked.length).toBeGreaterThanOrEqual(3);
  await pass(6_000);
  const before = asked.length;
  await pass(6_000);
  // Nothing has come, and what is asked for each ten seconds was.
  expect(asked.length - before).toBeLessThanOrEqual(1);
  cleanup();
  queryClient.clear();
  asked = [];
  shown();
  await pass(1_000);
  expect(asked.length).toBe(1);
  // What changed between the look at the log and this is told by nobody else.
  Stream.last?.tell(event('s-0', 1_000, { kind: 'began', severity: 'info', subject: 'events' }));
  expect(subjects()).toEqual(['node of b']);
  await pass(3_000);
  expect(asked.length).toBe(2);
});

test('only what matters so much is asked for and shown', async () => {
  answers((query) => ({
    events: query.get('severity') === 'error' ? [] : [event('b', 2)],
    silent: [],
  }));
  shown();
  await waitFor(() => expect(subjects()).toEqual(['node of b']));
  fireEvent.click(screen.getByRole('radio', { name: 'Critical' }));
  await screen.findByText('Nothing of that weight');
  Stream.last?.tell(event('s-1', 3));
  expect(subjects()).toEqual([]);
  Stream.last?.tell(event('s-2', 4, { severity: 'error' }));
  expect(subjects()).toEqual(['node of s-2']);
});

test('events are chosen by kind, by the node, and by what they are about, of what is known', async () => {
  answers((query) => ({
    events: [
      event('b', 2, { subject: 'node n1', kind: 'node-back' }),
      event('a', 1, { subject: 'node n2', kind: 'node-lost' }),
    ].filter(({ kind }) => query.get('kind') === null || query.get('kind') === kind),
    next: 'cursor',
    silent: [],
  }));
  shown();
  await waitFor(() => expect(subjects()).toEqual(['node n1', 'node n2']));
  const type = (value: string) =>
    fireEvent.change(screen.getByLabelText('About which node or volume'), { target: { value } });
  type('n2');
  expect(subjects()).toEqual(['node n2']);
  screen.getByText(/^1 of the newest 2 events/);
  Stream.last?.tell(event('s-1', 300_000, { subject: 'node n1' }));
  Stream.last?.tell(event('s-2', 400_000, { subject: 'node n2' }));
  expect(subjects()).toEqual(['node n2', 'node n2']);
  type('');
  fireEvent.change(screen.getByLabelText('Of which kind'), { target: { value: 'node-back' } });
  await waitFor(() => expect(subjects()).toEqual(['node n1']));
  expect(asked.at(-1)?.searchParams.get('kind')).toBe('node-back');
  fireEvent.click(screen.getByRole('button', { name: 'Show older ones' }));
  await waitFor(() => expect(asked.at(-1)?.searchParams.get('after')).toBe('cursor'));
  expect(asked.at(-1)?.searchParams.get('kind')).toBe('node-back');
});

test('what is new is spoken, as a count where it is much, and what is older is not', async () => {
  vi.useFakeTimers();
  const pass = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));
  answers((query) =>
    query.get('after') === 'cursor'
      ? { events: [event('a', 1)], silent: [] }
      : { events: [event('b', 2)], next: 'cursor', silent: [] },
  );
  shown();
  await pass(100);
  const spoken = () => screen.getByRole('status').textContent;
  fireEvent.click(screen.getByRole('button', { name: 'Show older ones' }));
  await pass(2_000);
  expect(subjects()).toEqual(['node of b', 'node of a']);
  expect(document.querySelector('.events')?.closest('[aria-live]')).toBeNull();
  expect(spoken()).toBe('');
  Stream.last?.tell(event('s-1', 3_000));
  await pass(1_500);
  expect(spoken()).toBe('Node lost, node of s-1: down');
  for (const id of ['s-2', 's-3', 's-4']) Stream.last?.tell(event(id, 4_000));
  await pass(1_500);
  expect(spoken()).toBe('3 new events');
});

test('what was passed over while something else was chosen is not spoken when that is cleared', async () => {
  vi.useFakeTimers();
  const pass = (ms: number) => act(() => vi.advanceTimersByTimeAsync(ms));
  answers(() => ({ events: [event('b', 2)], silent: [] }));
  shown();
  await pass(100);
  const spoken = () => screen.getByRole('status').textContent;
  const about = screen.getByLabelText('About which node or volume');
  fireEvent.change(about, { target: { value: 'volume db' } });
  for (const id of ['s-1', 's-2']) Stream.last?.tell(event(id, 3_000));
  await pass(1_500);
  expect(spoken()).toBe('');
  fireEvent.change(about, { target: { value: '' } });
  await pass(1_500);
  expect(subjects()).toContain('node of s-1');
  expect(spoken()).toBe('');
  Stream.last?.tell(event('s-3', 4_000));
  await pass(1_500);
  expect(spoken()).toBe('Node lost, node of s-3: down');
});

test('an event leads to what it is about, as long as that is there', async () => {
  answers(() => ({
    events: [
      event('c', 3, { subject: 'device 1 of node n2', kind: 'device-lost' }),
      event('b', 2, { subject: 'volume db', kind: 'volume-deleted' }),
      event('a', 1, { subject: 'cluster', kind: 'cluster-health' }),
    ],
    silent: [],
  }));
  shown();
  const link = await screen.findByRole('link', { name: 'device 1 of node n2' });
  expect(link.getAttribute('href')).toBe('/nodes/n2');
  expect(subjects()).toEqual(['device 1 of node n2', 'volume db', 'cluster']);
  expect(screen.getAllByRole('link').length).toBe(1);
});

test('nothing leads to what was deleted since', async () => {
  answers(() => ({
    events: [
      event('c', 3, { subject: 'volume spare', kind: 'volume-created' }),
      event('b', 2, { subject: 'volume db', kind: 'volume-created' }),
      event('a', 1, { subject: 'node n9', kind: 'node-back' }),
    ],
    silent: [],
  }));
  shown();
  const links = () => screen.getAllByRole('link').map((link) => link.textContent);
  await waitFor(() => expect(links()).toEqual(['volume db']));
  expect(subjects()).toEqual(['volume spare', 'volume db', 'node n9']);
});

test('an alarm that is over does not read like one that begins', async () => {
  const alarm = { subject: 'node n1', detail: 'node-lost: it does not answer' };
  answers(() => ({
    events: [
      event('b', 2, { ...alarm, kind: 'alarm-cleared', severity: 'info' }),
      event('a', 1, { ...alarm, kind: 'alarm-raised', severity: 'error' }),
    ],
    silent: [],
  }));
  shown();
  const items = () => screen.queryAllByRole('listitem');
  const whole = /Alarm over.*A node is lost: it was/;
  // What kinds of alarms are called is asked apart, and may come later.
  await waitFor(() => expect(items()[0]?.textContent).toMatch(whole));
  const [over, raised] = items();
  expect(over?.querySelector('svg')?.getAttribute('class')).toContain('tone-good');
  expect(raised?.textContent).toMatch(/Alarm raised/);
  expect(raised?.textContent).not.toMatch(/it was/);
});

test('why nothing is told is said, and when something may have been', async () => {
  answers(() => null);
  shown();
  await screen.findByText('the metadata is away');
  cleanup();
  queryClient.clear();
  answers(() => ({ events: [event('b', 2, { not_before_ms: 1 })], silent: [] }));
  shown();
  await screen.findByText(/or before/);
});
