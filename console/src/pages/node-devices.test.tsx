import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { queryClient } from '../api/queries';
import type { Device } from '../api/types';
import { RemoveDialog } from './node-devices';

const device: Device = {
  ...{ number: 2, path: '/dev/sdb', tier: 'flash', state: 'drained' },
  ...{ journal: false, bytes: 1000, used_bytes: 0 },
};

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

function show(of: Device): unknown[] {
  const sent: unknown[] = [];
  vi.stubGlobal('fetch', async (request: Request) => {
    sent.push(await request.json());
    return Response.json({ devices: [] });
  });
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <RemoveDialog node="n1" device={of} onClose={() => {}} />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return sent;
}

test('a device is removed when its path has been typed', async () => {
  const sent = show(device);
  const remove = () => screen.getByRole<HTMLButtonElement>('button', { name: 'Remove device' });
  const type = (value: string) =>
    fireEvent.change(screen.getByRole('textbox'), { target: { value } });
  expect(remove().disabled).toBe(true);
  type('/dev/sda');
  expect(remove().disabled).toBe(true);
  type('/dev/sdb');
  fireEvent.click(remove());
  await waitFor(() => expect(sent).toEqual([{ order: 'remove', device: 2 }]));
  cleanup();
  // One that was not there when the node started has no path.
  show({ ...device, path: '' });
  type('device 2');
  expect(remove().disabled).toBe(false);
});
