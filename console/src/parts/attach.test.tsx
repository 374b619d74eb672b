import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { queryClient } from '../api/queries';
import { AttachRecipes } from './attach';

const volume = { name: 'db', target: 'iqn.x', lun: 3 };
const node = { name: 'n1', standing: 'active', portal: '192.0.2.1:3260' };

function show(nodes: Response) {
  vi.stubGlobal('fetch', async (request: Request) =>
    new URL(request.url).pathname === '/api/v1/volumes'
      ? Response.json({ volumes: [volume] })
      : nodes.clone(),
  );
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <AttachRecipes name="db" />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('how it is attached is told with the addresses of the nodes, and not without', async () => {
  show(Response.json({ nodes: [node] }));
  await screen.findByText(/--portal 192\.0\.2\.1:3260/);
  cleanup();
  queryClient.clear();
  show(Response.json({ title: 'busy', detail: 'not now', status: 503 }, { status: 503 }));
  await screen.findByText('not now');
  expect(screen.queryByText(/NODE:3260/)).toBeNull();
});
