import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import type { ReactNode } from 'react';
import { afterEach, expect, test, vi } from 'vitest';
import { queryClient } from '../api/queries';
import type { AlarmKind, Initiator, Node, Settings, User, Volume } from '../api/types';
import { AlarmsPage } from './alarms';
import { HostsPage } from './hosts';
import { OrderDialog, RemoveDialog } from './node-changes';
import { SettingsPage } from './settings';
import { UsersPage } from './users';
import { AccessPanel } from './volume-access';
import { DeleteDialog, GrowDialog } from './volume-changes';

const OUTDATED = {
  type: 'urn:holdfast:problem:precondition-failed',
  title: 'precondition failed',
  status: 412,
  detail: 'it has changed since',
};

const volume = (bytes: number, etag: string, initiators: string[] = []) =>
  ({
    name: 'db',
    bytes,
    policy: 'mirror2',
    health: 'healthy',
    slices: [],
    resync: { bytes_moved: 0 },
    access: { open: initiators.length === 0, initiators },
    etag,
  }) as unknown as Volume;

const node = (standing: Node['standing'], etag: string) =>
  ({ name: 'n1', state: 'up', standing, etag }) as unknown as Node;

/** A change as it was sent. */
type Sent = { method: string; path: string; tag: string | null; none: string | null };

/** What is sent; changes are refused unless they name the tag that is on record, and reads answered from `reads`. */
function listen(on: () => string, reads: (path: string) => unknown = () => undefined): Sent[] {
  const sent: Sent[] = [];
  vi.stubGlobal('fetch', async (request: Request) => {
    const { method } = request;
    const path = new URL(request.url).pathname;
    if (method === 'GET') {
      const answer = reads(path);
      return answer === undefined ? new Response(null, { status: 503 }) : Response.json(answer);
    }
    const tag = request.headers.get('If-Match');
    sent.push({ method, path, tag, none: request.headers.get('If-None-Match') });
    if (tag === on()) return Response.json({});
    return Response.json(OUTDATED, { status: 412 });
  });
  return sent;
}

const within = (children: ReactNode) => (
  <MantineProvider env="test">
    <QueryClientProvider client={queryClient}>{children}</QueryClientProvider>
  </MantineProvider>
);

const press = (name: string) => fireEvent.click(screen.getByRole('button', { name }));
const type = (label: string | RegExp, value: string) =>
  fireEvent.change(screen.getByLabelText(label), { target: { value } });
const close = () => {};

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('a volume that somebody else has changed meanwhile grows when that was seen', async () => {
  const sent = listen(() => '"2"');
  const { rerender } = render(within(<GrowDialog volume={volume(4096, '"1"')} onClose={close} />));
  type(/New size/, '1 MiB');
  press('Grow');
  await screen.findByText('it has changed since');
  expect(sent.map((one) => one.tag)).toEqual(['"1"']);
  // Until it has been read again there is nothing to show.
  const show = () => screen.getByRole('button', { name: /on record now/ }) as HTMLButtonElement;
  expect(show().disabled).toBe(true);
  rerender(within(<GrowDialog volume={volume(8192, '"2"')} onClose={close} />));
  screen.getByText(/It has 4 KiB/);
  fireEvent.click(show());
  screen.getByText(/It has 8 KiB/);
  expect(screen.queryByText('it has changed since')).toBeNull();
  press('Grow');
  await waitFor(() => expect(sent.map((one) => one.tag)).toEqual(['"1"', '"2"']));
});

test('what is deleted or taken from a host is the volume that was shown', async () => {
  const sent = listen(() => '"2"');
  const dialog = (one: Volume) => within(<DeleteDialog volume={one} onClose={close} />);
  const { rerender, unmount } = render(dialog(volume(4096, '"1"')));
  rerender(dialog(volume(4096, '"2"', ['iqn.2026-11.x:a'])));
  type(/to confirm/, 'db');
  press('Delete volume');
  await screen.findByText(/Somebody else has changed it/);
  press('Show what is on record now');
  screen.getByText(/for iqn.2026-11.x:a/);
  unmount();
  render(within(<AccessPanel volume={volume(4096, '"2"', ['iqn.2026-11.x:a'])} />));
  press('Take it from iqn.2026-11.x:a');
  press('Take it');
  await waitFor(() => expect(sent).toHaveLength(2));
  const host = screen.getByPlaceholderText(/^iqn/);
  fireEvent.change(host, { target: { value: 'iqn.2026-11.x:b' } });
  fireEvent.submit(host.closest('form') as HTMLFormElement);
  await waitFor(() => expect(sent).toHaveLength(3));
  expect(sent.map(({ method, tag }) => `${method} ${tag}`)).toEqual([
    'DELETE "1"',
    'PATCH "2"',
    'PATCH "2"',
  ]);
});

test('an order for a node is for how it was shown to stand', async () => {
  const sent = listen(() => '"2"');
  const dialog = (one: Node) => within(<OrderDialog node={one} order="drain" onClose={close} />);
  const { rerender, unmount } = render(dialog(node('active', '"1"')));
  rerender(dialog(node('maintenance', '"2"')));
  screen.getByText(/Now it is: up/);
  press('Begin to drain');
  await screen.findByText(/Somebody else has changed it/);
  press('Show what is on record now');
  screen.getByText(/Now it is: maintenance/);
  press('Begin to drain');
  await waitFor(() => expect(sent).toHaveLength(2));
  unmount();
  render(within(<RemoveDialog node={node('draining', '"3"')} onClose={close} />));
  type(/to confirm/, 'n1');
  press('Remove node');
  await waitFor(() => expect(sent).toHaveLength(3));
  expect(sent.map((one) => one.tag)).toEqual(['"1"', '"2"', '"3"']);
});

test('settings are saved over those that one began with', async () => {
  const settings = (delay: number, etag: string): Settings => ({
    repair_delay_seconds: delay,
    rebalance: true,
    background_slowdown_percent: 10,
    background_floor: 1024 ** 2,
    scrub_interval_seconds: 0,
    scrub_rate: 1024 ** 2,
    etag,
  });
  let stored = settings(600, '"1"');
  const sent = listen(
    () => stored.etag ?? '',
    (path) => (path === '/api/v1/settings' ? stored : undefined),
  );
  render(within(<SettingsPage />));
  await screen.findByLabelText('Repair delay');
  type('Repair delay', '45 s');
  stored = settings(1200, '"2"');
  await queryClient.invalidateQueries();
  press('Save');
  await screen.findByText('it has changed since');
  const delay = () => (screen.getByLabelText('Repair delay') as HTMLInputElement).value;
  expect(delay()).toBe('45 s');
  press('Show what is on record now');
  await waitFor(() => expect(delay().replace(/\s/g, ' ')).toBe('20 min'));
  type('Repair delay', '45 s');
  press('Save');
  await waitFor(() => expect(sent.map((one) => one.tag)).toEqual(['"1"', '"2"']));
});

test('a host that is added replaces none, and one that is changed or forgotten is the one shown', async () => {
  const host = { name: 'iqn.2026-11.x:a', chap_name: 'a', volumes: [], etag: '"1"' } as Initiator;
  const sent = listen(
    () => '"1"',
    (path) => (path === '/api/v1/initiators' ? { initiators: [host] } : undefined),
  );
  render(within(<HostsPage />));
  await screen.findByText('iqn.2026-11.x:a');
  press('Add host');
  type('Initiator', 'iqn.2026-11.x:a');
  fireEvent.submit(screen.getByLabelText('Initiator').closest('form') as HTMLFormElement);
  // It is on record: what there is comes first.
  await screen.findByText(/Somebody else has changed it/);
  press('Show what is on record now');
  expect((screen.getByLabelText('CHAP name (its)') as HTMLInputElement).value).toBe('a');
  type('Secret (its)', 'correct horse');
  fireEvent.submit(screen.getByLabelText('Initiator').closest('form') as HTMLFormElement);
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
  press('Forget iqn.2026-11.x:a');
  type(/to confirm/, 'iqn.2026-11.x:a');
  press('Forget');
  await waitFor(() => expect(sent).toHaveLength(3));
  expect(sent.map(({ method, tag, none }) => [method, tag, none])).toEqual([
    ['PUT', null, '*'],
    ['PUT', '"1"', null],
    ['DELETE', '"1"', null],
  ]);
});

test('a user is changed or removed as that one was shown', async () => {
  const user = (role: User['role'], etag: string) =>
    ({ name: 'bob', role, disabled: false, sessions: 0, etag }) as User;
  let stored = user('viewer', '"1"');
  const sent = listen(
    () => stored.etag ?? '',
    (path) => (path === '/api/v1/users' ? { users: [stored] } : undefined),
  );
  render(within(<UsersPage />));
  await screen.findByText('bob');
  press('Change bob');
  const role = () => screen.getByLabelText('Role') as HTMLSelectElement;
  const submit = () => fireEvent.submit(role().closest('form') as HTMLFormElement);
  fireEvent.change(role(), { target: { value: 'operator' } });
  stored = user('administrator', '"2"');
  submit();
  await screen.findByText(/Somebody else has changed it/);
  expect(role().value).toBe('operator');
  await waitFor(() => press('Show what is on record now'));
  await waitFor(() => expect(role().value).toBe('administrator'));
  fireEvent.change(role(), { target: { value: 'viewer' } });
  submit();
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
  press('Remove bob');
  type(/to confirm/, 'bob');
  press('Remove');
  await waitFor(() => expect(sent).toHaveLength(3));
  expect(sent.map(({ method, tag }) => `${method} ${tag}`)).toEqual([
    'PATCH "1"',
    'PATCH "2"',
    'DELETE "2"',
  ]);
});

test('a kind of alarm is set, or set back, as it was shown', async () => {
  const kind = (hold: number, etag: string) =>
    ({
      kind: 'node-lost',
      title: 'A node is lost',
      severity: 'critical',
      unit: 'state',
      threshold: { set: 1, clear: 0, hold_seconds: hold },
      off: false,
      meaning: 'It is away',
      action: 'Look',
      etag,
    }) as AlarmKind;
  let stored = kind(5, '"1"');
  const sent = listen(
    () => stored.etag ?? '',
    (path) => {
      if (path === '/api/v1/alarm-kinds') return { kinds: [stored] };
      if (path === '/api/v1/session') return { name: 'ada', role: 'administrator' };
      return undefined;
    },
  );
  // The page listens to what changes; here nothing does.
  vi.stubGlobal(
    'EventSource',
    class extends EventTarget {
      close() {}
    },
  );
  render(within(<AlarmsPage />));
  fireEvent.click(await screen.findByRole('button', { name: 'Change A node is lost' }));
  stored = kind(60, '"2"');
  press('Back to the default');
  await screen.findByText(/Somebody else has changed it/);
  await waitFor(() => press('Show what is on record now'));
  const hold = () => screen.getByLabelText('When it is so for') as HTMLInputElement;
  await waitFor(() => expect(hold().value).toBe('60 s'));
  press('Save');
  await waitFor(() => expect(sent).toHaveLength(2));
  expect(sent.map(({ method, tag }) => `${method} ${tag}`)).toEqual(['DELETE "1"', 'PATCH "2"']);
});
