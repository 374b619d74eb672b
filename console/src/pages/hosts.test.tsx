import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import type { ReactNode } from 'react';
import { afterEach, expect, test, vi } from 'vitest';
import { queryClient } from '../api/queries';
import { HostPage } from './host';
import { HostsPage } from './hosts';

const KNOWN = 'iqn.2026-11.example:known';
const GUEST = 'iqn.2026-11.example:guest';

const session = (initiator: string, portal: string) => ({
  ...{ target: 't', initiator, portal, isid: '00', tsih: 1, address: '10.0.0.1:1', since_ms: 1 },
  ...{ commands: 0, chap: false, parameters: {} },
});

const SESSIONS = [session(GUEST, 'n1'), session(GUEST, 'n2'), session(KNOWN, 'n1')];

/** What was asked for, and what was changed. Sessions are told in pieces of two. */
function show(children: ReactNode, sessions = SESSIONS): string[] {
  const asked: string[] = [];
  const answers: Record<string, unknown> = {
    '/api/v1/initiators': { initiators: [{ name: KNOWN, volumes: [], etag: '"1"' }] },
  };
  vi.stubGlobal('fetch', async (request: Request) => {
    const path = decodeURIComponent(new URL(request.url).pathname);
    asked.push(`${request.method} ${path}`);
    if (request.method !== 'GET') return Response.json({});
    if (path === '/api/v1/sessions') {
      const begin = Number(new URL(request.url).searchParams.get('after') ?? 0);
      const next = begin + 2 < sessions.length ? { next: String(begin + 2) } : {};
      const silent = begin === 0 ? [] : ['n3'];
      return Response.json({ sessions: sessions.slice(begin, begin + 2), silent, ...next });
    }
    if (path.endsWith('/history')) return Response.json({ points: [], silent: [] });
    const answer = answers[path];
    return answer ? Response.json(answer) : Response.json({ sessions: [], silent: [] });
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>{children}</QueryClientProvider>
    </MantineProvider>,
  );
  return asked;
}

const rowOf = (name: string) => screen.getByText(name).closest('tr')?.textContent;

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('hosts that are logged in, and not on record, are listed with their sessions', async () => {
  const asked = show(<HostsPage />);
  await screen.findByText(GUEST);
  expect(rowOf(GUEST)).toMatch(/not on record2n1, n2/);
  expect(rowOf(KNOWN)).not.toMatch(/not on record/);
  screen.getByText(/1 node did not answer \(n3\)/);
  expect(asked.filter((one) => one.endsWith('/sessions'))).toEqual([
    'GET /api/v1/sessions',
    'GET /api/v1/sessions',
  ]);
  fireEvent.click(screen.getByRole('button', { name: `Put ${GUEST} on record` }));
  fireEvent.click((await screen.findAllByRole('button', { name: 'Add host' })).at(-1) as Element);
  await waitFor(() => expect(asked).toContain(`PUT /api/v1/initiators/${GUEST}`));
});

test('where nobody is logged in, nobody is said to be', async () => {
  show(<HostsPage />, []);
  await screen.findByText('No host is logged in.');
  cleanup();
  queryClient.clear();
  show(<HostsPage />, [session(KNOWN, 'n1')]);
  await screen.findByText('Every host that is logged in is on record.');
});

test('how a host proves itself is set on its own page, too', async () => {
  const asked = show(<HostPage name={KNOWN} />);
  fireEvent.click(await screen.findByRole('button', { name: 'CHAP' }));
  await screen.findByText('Change how a host proves itself');
  fireEvent.click(screen.getByRole('button', { name: 'Change' }));
  await waitFor(() => expect(asked).toContain(`PUT /api/v1/initiators/${KNOWN}`));
  expect(asked).toContain(`GET /api/v1/initiators/${KNOWN}/history`);
  cleanup();
  queryClient.clear();
  show(<HostPage name={GUEST} />);
  await screen.findByRole('button', { name: 'Put on record' });
});
