import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import type { ReactNode } from 'react';
import { afterEach, expect, test, vi } from 'vitest';
import { Problem } from '../api/client';
import { initiatorsQuery, queryClient, sessionQuery, volumeQuery } from '../api/queries';
import type { Identity, Role, Volume } from '../api/types';
import { AuditPage } from '../pages/audit';
import { HostsPage } from '../pages/hosts';
import { SettingsPage } from '../pages/settings';
import { UsersPage } from '../pages/users';
import { VolumePage } from '../pages/volume';
import { WizardPage } from '../pages/wizard';
import { Shown } from './basic';
import { refusal } from './role';

const VOLUME = {
  name: 'db',
  bytes: 4096,
  policy: 'mirror2',
  health: 'healthy',
  slices: [],
  resync: { bytes_moved: 0 },
  access: { open: true, initiators: [] },
} as unknown as Volume;

function seenBy(role: Role) {
  const who: Identity = { kind: 'user', name: 'bob', role, scope: 'everything' };
  // Nothing else is known.
  vi.stubGlobal('fetch', () => new Promise(() => {}));
  queryClient.setQueryData(sessionQuery.queryKey, who);
  queryClient.setQueryData(volumeQuery('db').queryKey, VOLUME);
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <VolumePage name="db" part="access" />
      </QueryClientProvider>
    </MantineProvider>,
  );
  const named = (name: string) => screen.getByRole('button', { name }) as HTMLButtonElement;
  return ['Grow', 'Scrub', 'Delete'].map(named);
}

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('a role may what those below it may, and what is not known is left to the interface', () => {
  expect(refusal('viewer', 'operator')).toBe(
    'This takes an operator or an administrator. You are logged in as viewer.',
  );
  expect(refusal('operator', 'administrator')).toMatch(/takes an administrator\. .* as operator/);
  expect(refusal('operator', 'operator')).toBeNull();
  expect(refusal('administrator', 'operator')).toBeNull();
  expect(refusal(undefined, 'administrator')).toBeNull();
  expect(refusal('auditor' as Role, 'operator')).toBeNull();
});

test('what a viewer may not order is disabled, and says who may', async () => {
  const buttons = seenBy('viewer');
  expect(buttons.map((button) => button.disabled)).toEqual([true, true, true]);
  const [grow] = buttons;
  fireEvent.focus(grow?.parentElement as HTMLElement);
  await waitFor(() =>
    expect(screen.getByRole('tooltip').textContent).toContain('an operator or an administrator'),
  );
});

test('an operator may order it', () => {
  expect(seenBy('operator').map((button) => button.disabled)).toEqual([false, false, false]);
});

/** A page as a role sees it, and what was asked for. */
function page(role: Role, children: ReactNode): string[] {
  const asked: string[] = [];
  const who: Identity = { kind: 'user', name: 'bob', role, scope: 'everything' };
  vi.stubGlobal('fetch', async (request: Request) => {
    const { pathname } = new URL(request.url);
    asked.push(pathname);
    if (pathname === '/api/v1/settings') return Response.json(SETTINGS);
    const problem = { title: 'forbidden', detail: 'this takes more', status: 403 };
    return Response.json(problem, { status: 403 });
  });
  queryClient.setQueryData(sessionQuery.queryKey, who);
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>{children}</QueryClientProvider>
    </MantineProvider>,
  );
  return asked;
}

const SETTINGS = {
  repair_delay_seconds: 3600,
  rebalance: true,
  background_slowdown_percent: 10,
  background_floor: 16 * 1024 ** 2,
  scrub_interval_seconds: 604_800,
  scrub_rate: 64 * 1024 ** 2,
};

test('settings are read by whoever may not change them, and typed into by whoever may', async () => {
  page('viewer', <SettingsPage />);
  const delay = (): HTMLInputElement => screen.getByLabelText(/^Repair delay/);
  await waitFor(() => expect(delay().readOnly).toBe(true));
  expect(screen.getByLabelText<HTMLInputElement>(/^Even out: on/).disabled).toBe(true);
  screen.getByText(/seen, and not changed\. This takes an administrator/);
  cleanup();
  queryClient.clear();
  page('administrator', <SettingsPage />);
  await waitFor(() => expect(delay().readOnly).toBe(false));
  expect(screen.queryByText(/and not changed/)).toBeNull();
});

test('a page that is not for a role says so, and asks for nothing that is refused', () => {
  for (const [children, path] of [
    [<UsersPage key="users" />, '/api/v1/users'],
    [<AuditPage key="audit" />, '/api/v1/audit'],
    [<WizardPage key="wizard" />, '/api/v1/initiators'],
  ] as const) {
    const asked = page('viewer', children);
    screen.getByText('This page is not for your role');
    screen.getByText(/You are logged in as viewer/);
    expect(screen.queryByRole('button')).toBeNull();
    expect(asked).not.toContain(path);
    cleanup();
  }
});

test('whom a volume is for is not typed by who may not say it', () => {
  const field = () => screen.getAllByLabelText<HTMLInputElement>('Allow a host')[0]?.disabled;
  seenBy('viewer');
  expect(field()).toBe(true);
  cleanup();
  seenBy('operator');
  expect(field()).toBe(false);
});

test('what is refused because of who asks is not tried again', async () => {
  const error = (status: number) => new Problem({ title: 'no', detail: 'not so', status });
  const shown = (status: number) => {
    const query = { data: undefined, error: error(status), refetch: () => {} };
    page(
      'viewer',
      <Shown query={query} what="it">
        {() => null}
      </Shown>,
    );
    return screen.queryByRole('button', { name: 'Try again' });
  };
  expect(shown(403)).toBeNull();
  cleanup();
  expect(shown(503)).not.toBeNull();
});

test('what cannot be ordered as things are says why', async () => {
  const initiators = [{ name: 'iqn.2026-11.example:h1', volumes: ['db'] }];
  vi.stubGlobal('fetch', () => new Promise(() => {}));
  const who: Identity = { kind: 'user', name: 'bob', role: 'operator', scope: 'everything' };
  queryClient.setQueryData(sessionQuery.queryKey, who);
  queryClient.setQueryData(initiatorsQuery.queryKey, { initiators });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <HostsPage />
      </QueryClientProvider>
    </MantineProvider>,
  );
  const forget: HTMLButtonElement = screen.getByRole('button', { name: /^Forget/ });
  expect(forget.disabled).toBe(true);
  fireEvent.focus(forget.parentElement as HTMLElement);
  await waitFor(() => expect(screen.getByRole('tooltip').textContent).toContain('Volumes list it'));
});
