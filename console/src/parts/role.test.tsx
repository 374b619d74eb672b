import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { initiatorsQuery, queryClient, sessionQuery, volumeQuery } from '../api/queries';
import type { Identity, Role, Volume } from '../api/types';
import { HostsPage } from '../pages/hosts';
import { VolumePage } from '../pages/volume';
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
