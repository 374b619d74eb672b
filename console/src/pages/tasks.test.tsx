import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import type { ReactNode } from 'react';
import { afterEach, expect, test, vi } from 'vitest';
import { queryClient } from '../api/queries';
import type { Task } from '../api/types';
import { UnderWay } from '../parts/tasks';
import { TasksPage } from './tasks';

const DRAIN: Task = {
  id: 'node-drain~n1',
  kind: 'node-drain',
  subject: 'node n1',
  node: 'n1',
  bytes_left: 1024 ** 3,
  bytes_per_second: 1024 ** 2,
  seconds_left: 1024,
  can_cancel: true,
};

const SYNCS: Task[] = Array.from({ length: 1000 }, (_, index) => ({
  id: `sync~data~${index}~n2`,
  kind: 'sync',
  subject: `slice ${index} of volume data, to n2`,
  volume: 'data',
  node: 'n2',
  is_waiting: index > 0,
  bytes_done: index === 0 ? 250 : null,
  bytes_total: index === 0 ? 1000 : null,
  bytes_left: 750,
}));

/** What is sent to change something, while these tasks are told. */
function listen(tasks: Task[]): string[] {
  const sent: string[] = [];
  vi.stubGlobal('fetch', async (request: Request) => {
    const path = new URL(request.url).pathname;
    if (request.method !== 'GET') {
      sent.push(`${request.method} ${path}`);
      return new Response(null, { status: 204 });
    }
    return path === '/api/v1/tasks'
      ? Response.json({ tasks })
      : new Response(null, { status: 503 });
  });
  return sent;
}

const show = (children: ReactNode) =>
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>{children}</QueryClientProvider>
    </MantineProvider>,
  );

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('what can be called off is, once that is confirmed', async () => {
  const sent = listen([DRAIN, ...SYNCS.slice(0, 2)]);
  show(<TasksPage />);
  const buttons = await screen.findAllByRole('button', { name: /^Call off:/ });
  expect(buttons).toHaveLength(1);
  fireEvent.click(buttons[0] as HTMLElement);
  expect(sent).toEqual([]);
  fireEvent.click(await screen.findByRole('button', { name: 'Call it off' }));
  await waitFor(() => expect(sent).toEqual(['DELETE /api/v1/tasks/node-drain~n1']));
});

test('of a thousand tasks a page of rows is drawn, what is under way first', async () => {
  listen([...SYNCS].reverse());
  show(<TasksPage />);
  await screen.findByText('1 to 50 of 1000');
  const rows = screen.getAllByRole('row');
  expect(rows).toHaveLength(51);
  expect(rows[1]?.textContent).toContain('slice 0 of');
  expect(rows[1]?.textContent).toContain('under way');
  expect(rows[2]?.textContent).toContain('waiting');
});

test('the overview tells the first few, with a bar where a total is known', async () => {
  listen([DRAIN, ...SYNCS]);
  show(<UnderWay />);
  await screen.findByText('All 1001 tasks: 2 under way, 999 wait');
  expect(screen.getAllByRole('listitem')).toHaveLength(5);
  expect(screen.getAllByRole('img')).toHaveLength(1);
  expect(screen.getByText(/^17.min$/)).toBeTruthy();
});

test('nothing under way is said on the page, and nothing on the overview', async () => {
  listen([]);
  const { container } = show(<UnderWay />);
  await waitFor(() => expect(queryClient.getQueryData(['tasks'])).toEqual({ tasks: [] }));
  expect(container.querySelector('.panel')).toBeNull();
  show(<TasksPage />);
  await screen.findByText('Nothing is under way');
});

test('tasks that cannot be read are not told as none', async () => {
  vi.stubGlobal('fetch', async () => new Response(null, { status: 503 }));
  show(<UnderWay />);
  await screen.findByText(/^Tasks could not be read/);
  cleanup();
  queryClient.clear();
  queryClient.setQueryData(['tasks'], { tasks: [DRAIN] });
  show(<UnderWay />);
  await queryClient.invalidateQueries();
  await screen.findByText(/^Tasks could not be read/);
  expect(screen.getAllByRole('listitem')).toHaveLength(1);
});
