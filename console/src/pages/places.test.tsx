import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen } from '@testing-library/react';
import type { ReactNode } from 'react';
import { afterEach, expect, test, vi } from 'vitest';
import { Problem } from '../api/client';
import { nodesQuery, queryClient, sessionQuery } from '../api/queries';
import type { Identity, Role } from '../api/types';
import { Failure } from '../parts/basic';
import { NodesPage } from './nodes';
import { SettingsPage } from './settings';

function show(page: ReactNode, role: Role) {
  vi.stubGlobal('fetch', () => new Promise(() => {}));
  const who: Identity = { kind: 'user', name: 'bob', role, scope: 'everything' };
  queryClient.setQueryData(sessionQuery.queryKey, who);
  queryClient.setQueryData(nodesQuery.queryKey, { nodes: [] });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>{page}</QueryClientProvider>
    </MantineProvider>,
  );
}

const leads = (name: string | RegExp) => screen.queryByRole('link', { name })?.getAttribute('href');

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('where nodes are it is said how one more comes to be there', () => {
  show(<NodesPage />, 'operator');
  expect(leads(/One more machine/)).toBe('/docs/deployment.html#one-more-machine');
});

test('what else is set leads from the settings to where that is, for those who may', () => {
  show(<SettingsPage />, 'administrator');
  expect(leads('users and tokens')).toBe('/users');
  expect(leads('mail and webhooks')).toBe('/alarms');
  cleanup();
  show(<SettingsPage />, 'operator');
  expect(leads('users and tokens')).toBeUndefined();
});

test('what is not there leads to the list of what is, and not to the command line', () => {
  const leadsFrom = (what: string) => {
    const error = new Problem({
      title: `No such ${what}`,
      detail: `there is no ${what} nope`,
      hint: `\`holdfast ${what} list\` tells which there are`,
      status: 404,
    });
    render(
      <MantineProvider env="test">
        <Failure error={error} />
      </MantineProvider>,
    );
    const { textContent } = screen.getByRole('alert');
    const link = screen.queryByRole('link')?.getAttribute('href');
    cleanup();
    return [link, textContent?.includes('holdfast')];
  };
  expect(leadsFrom('volume')).toEqual(['/volumes', false]);
  expect(leadsFrom('node')).toEqual(['/nodes', false]);
  expect(leadsFrom('initiator')).toEqual(['/hosts', false]);
  expect(leadsFrom('receiver')).toEqual([undefined, true]);
});
