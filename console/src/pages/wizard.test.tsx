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
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <WizardPage />
      </QueryClientProvider>
    </MantineProvider>,
  );
  const name = (value: string) =>
    fireEvent.change(screen.getByLabelText(/^Name/), { target: { value } });
  name('db');
  fireEvent.change(screen.getByLabelText(/^Size/), { target: { value: '1 GiB' } });
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
