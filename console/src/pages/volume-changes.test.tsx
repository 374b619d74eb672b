import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { queryClient } from '../api/queries';
import type { Volume } from '../api/types';
import { DeleteDialog, GrowDialog } from './volume-changes';

const GIB = 1024 ** 3;

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('a volume that grows beyond what there is may do so, and it is said what follows', async () => {
  const status = {
    pool: { bytes: 100 * GIB, used_bytes: 0 },
    promised_bytes: 60 * GIB,
    nodes: { total: 3, up: 2 },
  };
  const answers: Record<string, unknown> = {
    '/api/v1/status': status,
    '/api/v1/explain': { nodes: [], volumes: [] },
  };
  vi.stubGlobal('fetch', async (request: Request) => {
    if (request.method === 'PATCH') return new Promise(() => {});
    const answer = answers[new URL(request.url).pathname];
    return answer ? Response.json(answer) : new Response(null, { status: 503 });
  });
  const volume = { name: 'db', bytes: 10 * GIB, policy: 'mirror3', etag: '"1"' } as Volume;
  const dialog = (volume: Volume) => (
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <GrowDialog volume={volume} onClose={() => {}} />
      </QueryClientProvider>
    </MantineProvider>
  );
  const { rerender } = render(dialog(volume));
  const grow = (value: string) =>
    fireEvent.change(screen.getByLabelText(/New size/), { target: { value } });
  // What it has is promised already: three copies of what comes to that.
  grow('20 GiB');
  await screen.findByText(/90 % of the pool/);
  expect(screen.queryByText(/refused/)).toBeNull();
  grow('30 GiB');
  await screen.findByText(/promised 120 % of the pool/);
  screen.getByText(/The room of the node that is not up is not counted/);
  const button: HTMLButtonElement = screen.getByRole('button', { name: 'Grow' });
  expect(button.disabled).toBe(false);
  // While it grows it may be among what is promised already, and have its new size.
  fireEvent.click(button);
  status.promised_bytes += 60 * GIB;
  const { dataUpdatedAt } = queryClient.getQueryState(['cluster']) ?? { dataUpdatedAt: 0 };
  await queryClient.invalidateQueries({ queryKey: ['cluster'] });
  await waitFor(() =>
    expect(queryClient.getQueryState(['cluster'])?.dataUpdatedAt).toBeGreaterThan(dataUpdatedAt),
  );
  rerender(dialog({ ...volume, bytes: 30 * GIB, etag: '"2"' }));
  screen.getByText(/promised 120 % of the pool/);
});

const VOLUME = { name: 'db', bytes: GIB, policy: 'mirror2', etag: '"1"' } as Volume;

/** The dialog that deletes it, with so many sessions, and what is sent. */
function deletes(sessions: number, refusal: object) {
  const sent: string[] = [];
  vi.stubGlobal('fetch', async (request: Request) => {
    const { pathname, search } = new URL(request.url);
    if (request.method === 'DELETE') {
      sent.push(search);
      return Response.json(refusal, { status: 409 });
    }
    return pathname === '/api/v1/volumes'
      ? Response.json({ volumes: [{ name: 'db', sessions }] })
      : new Response(null, { status: 503 });
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <DeleteDialog volume={VOLUME} onClose={() => {}} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return sent;
}

const IN_USE = {
  type: 'urn:holdfast:problem:volume-in-use',
  title: 'The volume is in use',
  detail: 'volume db is in use: initiators have 1 session with its target',
  hint: 'log them out first; `holdfast volume delete db --force` takes it away from them',
  status: 409,
};

test('whoever deletes a volume sees that hosts use it, and cannot unless that is meant', async () => {
  const sent = deletes(2, IN_USE);
  await screen.findByText(/^2 sessions of hosts are open/);
  fireEvent.change(screen.getByRole('textbox'), { target: { value: 'db' } });
  const button = () => screen.getByRole<HTMLButtonElement>('button', { name: 'Delete volume' });
  expect(button().disabled).toBe(true);
  fireEvent.submit(button());
  fireEvent.focus(button().parentElement as HTMLElement);
  expect((await screen.findByRole('tooltip')).textContent).toMatch(/^Hosts use it: .* or tick/);
  fireEvent.click(screen.getByRole('checkbox', { name: 'Also if hosts use it (force)' }));
  expect(button().disabled).toBe(false);
  fireEvent.click(button());
  await waitFor(() => expect(sent).toEqual(['?force=true']));
});

test('where hosts turn out to use a volume the box is named, and not the command line', async () => {
  deletes(0, IN_USE);
  fireEvent.change(await screen.findByRole('textbox'), { target: { value: 'db' } });
  fireEvent.click(screen.getByRole('button', { name: 'Delete volume' }));
  const refusal = await screen.findByRole('alert');
  expect(refusal.textContent).toMatch(/log them out first; the tick at “Also if hosts use it/);
  expect(refusal.textContent).not.toMatch(/--force/);
});
