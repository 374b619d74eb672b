import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { queryClient } from '../api/queries';
import { loginFault, rememberPlace, returnToPlace } from '../text/login';
import { LoginPage } from './login';

const asked: string[] = [];

/** A node at which one can log in so. */
function node(methods: object) {
  vi.stubGlobal('fetch', async (request: Request) => {
    asked.push(new URL(request.url).pathname);
    return Response.json(methods);
  });
}

function page() {
  render(
    <MantineProvider>
      <QueryClientProvider client={queryClient}>
        <LoginPage ended={false} />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

beforeEach(() => window.history.replaceState(null, '', '/'));

afterEach(() => {
  cleanup();
  queryClient.clear();
  asked.length = 0;
  vi.unstubAllGlobals();
});

test('where there is a provider one can go there, and users log in as well', async () => {
  const url = 'https://storage.example/api/v1/login/oidc';
  node({ password: true, oidc: { name: 'Keycloak', url } });
  page();
  const button = await screen.findByRole('link', { name: 'Sign in with Keycloak' });
  expect(button.getAttribute('href')).toBe(url);
  expect(screen.getByLabelText('Password')).toBeDefined();
});

test('where there is none nothing is said of it', async () => {
  node({ password: true });
  page();
  await waitFor(() => expect(asked).toContain('/api/v1/login'));
  await waitFor(() => expect(queryClient.getQueryData(['login'])).toBeDefined());
  expect(screen.queryByText(/Sign in with/)).toBeNull();
  expect(screen.queryByRole('alert')).toBeNull();
});

test('who has a demo is told as whom to log in, and where the password is', async () => {
  node({ password: true });
  page();
  const note = await screen.findByText(/A demo's user is/);
  expect(note.textContent).toMatch(/user is admin, and the password is in the file admin-password/);
});

test('why somebody was not let in is told once, in words of ours', async () => {
  node({ password: true });
  window.history.replaceState(null, '', '/volumes?login=no-role');
  page();
  expect(screen.getByRole('alert').textContent).toContain('nobody has given you a role here');
  await waitFor(() => expect(window.location.search).toBe(''));
  expect(window.location.pathname).toBe('/volumes');
});

test('nothing of a query is shown', () => {
  expect(loginFault('')).toBeUndefined();
  expect(loginFault('?login=<b>x</b>')).toBe('The login has failed. Try again.');
  expect(loginFault('?login=constructor')).toBe('The login has failed. Try again.');
  expect(loginFault('?login=again')).toContain('took too long');
});

test('whoever comes back is where he was', () => {
  window.history.replaceState(null, '', '/volumes/data');
  rememberPlace();
  window.history.replaceState(null, '', '/');
  returnToPlace();
  expect(window.location.pathname).toBe('/volumes/data');
  window.history.replaceState(null, '', '/');
  returnToPlace();
  expect(window.location.pathname).toBe('/');
});
