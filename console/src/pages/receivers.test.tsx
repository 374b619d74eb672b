import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor, within } from '@testing-library/react';
import { afterEach, expect, test, vi } from 'vitest';
import { queryClient } from '../api/queries';
import type { Receiver } from '../api/types';
import { Receivers } from './receivers';

const OUTDATED = {
  type: 'urn:holdfast:problem:precondition-failed',
  title: 'precondition failed',
  status: 412,
  detail: 'it has changed since',
  hint: 'read it again, and decide by what it is now',
};

/** A receiver as one change after the other leaves it. */
function receiver(url: string, etag: string): Receiver {
  return {
    name: 'ops',
    critical_only: false,
    has_authority: false,
    waiting: 0,
    etag,
    webhook: { url, is_signed: false },
  } as unknown as Receiver;
}

function outdated(): Response {
  return Response.json(OUTDATED, {
    status: 412,
    headers: { 'content-type': 'application/problem+json' },
  });
}

function shown() {
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={queryClient}>
        <Receivers />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('what somebody else has changed meanwhile is not overwritten before it was seen', async () => {
  let stored = receiver('https://hooks.example/old', '"1"');
  const changes: { tag: string | null; url: string }[] = [];
  vi.stubGlobal('fetch', async (request: Request) => {
    if (request.method !== 'PUT') return Response.json({ receivers: [stored] });
    const tag = request.headers.get('If-Match');
    const body = await request.json();
    changes.push({ tag, url: body.webhook.url });
    if (tag !== stored.etag) return outdated();
    stored = receiver(body.webhook.url, '"3"');
    return Response.json(stored);
  });
  shown();
  fireEvent.click(await screen.findByRole('button', { name: 'Change ops' }));
  const address = () => screen.getByLabelText('Address') as HTMLInputElement;
  fireEvent.change(await screen.findByLabelText('Address'), {
    target: { value: 'https://hooks.example/mine' },
  });
  // Somebody else is faster.
  stored = receiver('https://hooks.example/theirs', '"2"');
  fireEvent.click(screen.getByRole('button', { name: 'Save' }));
  await screen.findByText('it has changed since');
  expect(changes).toEqual([{ tag: '"1"', url: 'https://hooks.example/mine' }]);
  // What was typed stays until one asks for what there is.
  expect(address().value).toBe('https://hooks.example/mine');
  fireEvent.click(await screen.findByRole('button', { name: 'Show what is on record now' }));
  await waitFor(() => expect(address().value).toBe('https://hooks.example/theirs'));
  expect(screen.queryByText('it has changed since')).toBeNull();
  fireEvent.change(address(), { target: { value: 'https://hooks.example/mine' } });
  fireEvent.click(screen.getByRole('button', { name: 'Save' }));
  await waitFor(() => expect(changes).toHaveLength(2));
  expect(changes[1]).toEqual({ tag: '"2"', url: 'https://hooks.example/mine' });
});

test('what is removed is what was shown when that was asked for', async () => {
  let stored: Receiver | undefined = receiver('https://hooks.example/old', '"1"');
  const tags: (string | null)[] = [];
  vi.stubGlobal('fetch', async (request: Request) => {
    if (request.method !== 'DELETE') {
      return Response.json({ receivers: stored ? [stored] : [] });
    }
    const tag = request.headers.get('If-Match');
    tags.push(tag);
    if (tag !== stored?.etag) return outdated();
    stored = undefined;
    return new Response(null, { status: 204 });
  });
  shown();
  fireEvent.click(await screen.findByRole('button', { name: 'Remove ops' }));
  const dialog = () => within(screen.getByRole('dialog'));
  const remove = () => fireEvent.click(dialog().getByRole('button', { name: 'Remove' }));
  await screen.findByRole('dialog');
  // Somebody else is faster, and the list behind the dialog has heard of it.
  stored = receiver('https://hooks.example/theirs', '"2"');
  await queryClient.invalidateQueries();
  await screen.findByText('https://hooks.example/theirs');
  expect(dialog().getByText(/hooks.example.old/)).toBeTruthy();
  remove();
  await screen.findByText('it has changed since');
  expect(tags).toEqual(['"1"']);
  fireEvent.click(await screen.findByRole('button', { name: 'Show what is on record now' }));
  await dialog().findByText(/hooks.example.theirs/);
  expect(screen.queryByText('it has changed since')).toBeNull();
  remove();
  await screen.findByText('Nobody is told');
  expect(tags).toEqual(['"1"', '"2"']);
  expect(screen.queryByRole('dialog')).toBeNull();
});
