import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { queryClient } from '../api/queries';
import { WizardPage } from './wizard';

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

const show = () =>
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <WizardPage />
      </QueryClientProvider>
    </MantineProvider>,
  );
const type = (label: RegExp, value: string) =>
  fireEvent.change(screen.getByLabelText(label), { target: { value } });
const name = (value: string) => type(/^Name/, value);
const size = (value: string) => type(/^Size/, value);
const press = (name: string) => fireEvent.click(screen.getByRole('button', { name }));
const submit = () => fireEvent.submit(document.querySelector('form') as HTMLFormElement);

test('a volume is asked for by one key until the interface has refused it and it is another', async () => {
  const keys: (string | null)[] = [];
  let refused = false;
  vi.stubGlobal('fetch', async (request: Request) => {
    if (request.method !== 'POST') return new Response(null, { status: 503 });
    keys.push(request.headers.get('Idempotency-Key'));
    if (!refused) throw new TypeError('connection reset');
    return Response.json({ title: 'no room', detail: 'full', status: 409 }, { status: 409 });
  });
  show();
  name('db');
  size('1 GiB');
  for (let step = 0; step < 3; step += 1) submit();
  const create = async (count: number) => {
    await waitFor(() => expect(screen.getByRole('button', { name: 'Create volume' })).toBeTruthy());
    submit();
    await waitFor(() => expect(keys).toHaveLength(count));
  };
  await create(1);
  await screen.findByText('no answer');
  // Whether that was done nobody knows: it is asked again.
  refused = true;
  await create(2);
  await screen.findByText('no room');
  expect(keys[0]).toMatch(/^[0-9a-f]{32}$/);
  expect(keys[1]).toBe(keys[0]);
  for (let step = 0; step < 3; step += 1) press('Back');
  name('db-2');
  for (let step = 0; step < 3; step += 1) submit();
  await create(3);
  expect(keys[2]).toMatch(/^[0-9a-f]{32}$/);
  expect(keys[2]).not.toBe(keys[0]);
});

test('what of the pool is promised is told before the volume is made, and does not stop it', async () => {
  const GIB = 1024 ** 3;
  const kinds = [70, 85, 95].map((set, at) => ({
    kind: ['pool-filling', 'pool-low', 'pool-almost-full'][at],
    off: false,
    threshold: { set, clear: set - 2, hold_seconds: 60 },
  }));
  const status = {
    pool: { bytes: 100 * GIB, used_bytes: 0 },
    promised_bytes: 78 * GIB,
    nodes: { total: 3, up: 3 },
  };
  const answers: Record<string, unknown> = {
    '/api/v1/status': status,
    '/api/v1/explain': { nodes: [], volumes: [] },
    '/api/v1/alarm-kinds': { kinds },
    '/api/v1/volumes': { volumes: [] },
  };
  vi.stubGlobal('fetch', async (request: Request) => {
    if (request.method === 'POST') return new Promise(() => {});
    const answer = answers[new URL(request.url).pathname];
    return answer ? Response.json(answer) : new Response(null, { status: 503 });
  });
  show();
  name('db');
  // Two copies of it.
  size('10 GiB');
  submit();
  await screen.findByText(/98 % of the pool/);
  expect(screen.queryByRole('status')).toBeNull();
  press('Back');
  size('20 GiB');
  submit();
  await screen.findByText(/promised 118 % of the pool/);
  await screen.findByText(/70, 85 and 95 % full/);
  submit();
  submit();
  screen.getByText(/promised 118 % of the pool/);
  const create: HTMLButtonElement = screen.getByRole('button', { name: 'Create volume' });
  expect(create.disabled).toBe(false);
  // While it is being made it is among what is promised already, and is not counted twice.
  submit();
  status.promised_bytes += 40 * GIB;
  const { dataUpdatedAt } = queryClient.getQueryState(['cluster']) ?? { dataUpdatedAt: 0 };
  await queryClient.invalidateQueries({ queryKey: ['cluster'] });
  await waitFor(() =>
    expect(queryClient.getQueryState(['cluster'])?.dataUpdatedAt).toBeGreaterThan(dataUpdatedAt),
  );
  screen.getByText(/promised 118 % of the pool/);
  // Nor by whoever goes back meanwhile, and on again.
  press('Back');
  press('Back');
  screen.getByText(/promised 118 % of the pool/);
  submit();
  submit();
  screen.getByText(/promised 118 % of the pool/);
  // One of another name comes beside it.
  for (let step = 0; step < 3; step += 1) press('Back');
  name('db-2');
  submit();
  screen.getByText(/promised 158 % of the pool/);
  // And the first is what it was, for whoever names it again.
  press('Back');
  name('db');
  submit();
  screen.getByText(/promised 118 % of the pool/);
});

test('whoever goes back while a volume is made can go on again, though there is one of its name by then', async () => {
  const volumes: object[] = [];
  vi.stubGlobal('fetch', async (request: Request) => {
    if (request.method === 'POST') {
      volumes.push({ name: 'db' });
      throw new TypeError('connection reset');
    }
    return new URL(request.url).pathname === '/api/v1/volumes'
      ? Response.json({ volumes })
      : new Response(null, { status: 503 });
  });
  show();
  name('db');
  size('1 GiB');
  for (let step = 0; step < 4; step += 1) submit();
  await screen.findByText('no answer');
  await waitFor(() =>
    expect(queryClient.getQueryData(['volumes'])).toMatchObject({ volumes: [{ name: 'db' }] }),
  );
  for (let step = 0; step < 3; step += 1) press('Back');
  submit();
  screen.getByText('How it is protected');
  // One that somebody else has made is another.
  press('Back');
  volumes.push({ name: 'db-2' });
  await queryClient.invalidateQueries({ queryKey: ['volumes'] });
  name('db-2');
  submit();
  await screen.findByText(/of this name already/);
});

test('a protection that the nodes cannot give is not gone on with', async () => {
  const node = (name: string) => ({ name, state: 'up', standing: 'active', portal: '', api: '' });
  let nodes = [node('n1')];
  vi.stubGlobal('fetch', async (request: Request) =>
    new URL(request.url).pathname === '/api/v1/nodes'
      ? Response.json({ nodes })
      : new Response(null, { status: 503 }),
  );
  show();
  name('db');
  size('1 GiB');
  submit();
  expect((await screen.findAllByText(/there is 1/)).length).toBe(3);
  submit();
  // Whoever does not see it hears it.
  const heard = await screen.findByRole('alert');
  expect(heard.textContent).toMatch(/^mirror2 needs 2/);
  expect(screen.queryByText('Whom it is for')).toBeNull();
  // What there is may be more in a moment.
  nodes = [node('n1'), node('n2')];
  await queryClient.invalidateQueries({ queryKey: ['nodes'] });
  await waitFor(() => expect(screen.queryByText(/^mirror2 needs 2/)).toBeNull());
  submit();
  screen.getByText('Whom it is for');
});
