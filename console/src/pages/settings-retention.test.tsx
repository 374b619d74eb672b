import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { queryClient, sessionQuery } from '../api/queries';
import type { Retention } from '../api/retention';
import type { Identity, Role } from '../api/types';
import { RetentionPanel } from './settings-retention';

const kept = (over: Partial<Retention> = {}): Retention => ({
  audit_mib: 32,
  events_mib: 16,
  nodes: [],
  silent: [],
  etag: '"r-20-10"',
  ...over,
});

/** What is sent, with its tag; reads are answered by what `answer` says then. */
function open(answer: () => Response, role: Role = 'administrator'): string[] {
  const sent: string[] = [];
  vi.stubGlobal('fetch', async (request: Request) => {
    if (request.method === 'GET') {
      return new URL(request.url).pathname === '/api/v1/retention'
        ? answer()
        : new Response(null, { status: 503 });
    }
    sent.push(`${request.headers.get('If-Match')} ${await request.text()}`);
    return Response.json(kept({ audit_mib: 64 }));
  });
  const who: Identity = { kind: 'user', name: 'bob', role, scope: 'everything' };
  queryClient.setQueryData(sessionQuery.queryKey, who);
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <RetentionPanel />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return sent;
}

const button = (name: string) => screen.getByRole('button', { name }) as HTMLButtonElement;

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('what is changed is what was shown, and nothing that is not understood is sent', async () => {
  const sent = open(() => Response.json(kept()));
  const audit = (await screen.findByLabelText(/Audit log at most/)) as HTMLInputElement;
  expect(audit.value).toBe('32\u00a0MiB');
  expect(button('Set retention').disabled).toBe(true);
  fireEvent.change(audit, { target: { value: '1 MiB' } });
  screen.getByText(/whole MiB, 2.MiB to 128.MiB/);
  expect(button('Set retention').disabled).toBe(true);
  fireEvent.change(audit, { target: { value: '64 MiB' } });
  fireEvent.click(button('Set retention'));
  await waitFor(() => expect(sent).toEqual(['"r-20-10" {"audit_mib":64}']));
});

test('each node tells what it has, and who does not is named', async () => {
  const now = Date.now();
  const nodes = [
    {
      name: 'n1',
      node: 1,
      audit: { bytes: 40 * 1024 ** 2, bytes_max: 32 * 1024 ** 2, oldest_ms: now - 3 * 86_400_000 },
      events: { bytes: 0, bytes_max: 16 * 1024 ** 2, oldest_ms: null },
      history: null,
    },
  ];
  open(() => Response.json(kept({ nodes, silent: ['n2'] })));
  await screen.findByText(/1 node did not answer \(n2\)/);
  screen.getByText('3 d');
  const size = screen.getByText('40 MiB');
  fireEvent.focus(size);
  const tip = await screen.findByRole('tooltip');
  expect(tip.textContent).toContain('It is more than is to be kept');
});

test('resolutions of a history stay together when they are sorted by size', async () => {
  const resolution = (step_seconds: number) => ({ step_seconds, kept_seconds: 3600 });
  const node = (name: string, bytes: number) => ({
    name,
    node: 1,
    audit: { bytes: 5, bytes_max: 10, oldest_ms: null },
    events: null,
    history: { bytes, bytes_max: 512, resolutions: [1, 10, 300].map(resolution) },
  });
  open(() => Response.json(kept({ nodes: [node('n1', 7), node('n2', 9)] })));
  await screen.findAllByText(/Performance history/);
  fireEvent.click(button('Size'));
  const rows = screen.getAllByRole('row').slice(-6);
  const cells = rows.map((row) => [...row.querySelectorAll('td')].map((one) => one.textContent));
  expect(cells.map(([name]) => name)).toEqual(['n1', 'n1', 'n1', 'n2', 'n2', 'n2']);
  expect(cells.map(([, what]) => what?.includes('each 1\u00a0s'))).toEqual([
    ...[true, false, false],
    ...[true, false, false],
  ]);
});

test('that nothing is known is said, and why', async () => {
  const problem = { title: 'unavailable', status: 503, detail: 'the metadata cannot be reached' };
  open(() => Response.json(problem, { status: 503 }));
  await screen.findByText('the metadata cannot be reached');
  cleanup();
  queryClient.clear();
  open(() => Response.json(kept({ silent: ['n1'] })));
  await screen.findByText('No node tells what it keeps');
});

test('who may not change it sees who may', async () => {
  open(() => Response.json(kept()), 'operator');
  const audit = await screen.findByLabelText(/Audit log at most/);
  fireEvent.change(audit, { target: { value: '64 MiB' } });
  expect(button('Set retention').disabled).toBe(true);
});
