import { Button, PasswordInput, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { ask, client, Problem, unknown } from '../api/client';
import { loginQuery, queryClient, useChange } from '../api/queries';
import { Failure, Sign } from '../parts/basic';
import { useTitle } from '../router';
import { loginFault, rememberPlace } from '../text/login';

/** Here the one who asks has just said who it is: it is the login that failed. */
function refused({ detail, status }: Problem): Problem {
  return new Problem({ title: 'login failed', detail, status });
}

/** Nobody is known: before anything else, who it is. The page that was wanted comes after it. */
export function LoginPage({ ended }: { ended: boolean }) {
  useTitle('Log in');
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const provider = useQuery(loginQuery).data?.oidc;
  const [fault] = useState(() => loginFault(window.location.search));
  useEffect(() => {
    // It is told once: whoever loads the page again has not failed again.
    if (fault) window.history.replaceState(null, '', window.location.pathname);
  }, [fault]);
  const login = useChange((body: { name: string; password: string }) =>
    ask(client.POST('/api/v1/session', { body })).catch((error) => {
      throw unknown(error) ? refused(error) : error;
    }),
  );
  return (
    <main className="login" id="page">
      <form
        className="panel login-form"
        onSubmit={(event) => {
          event.preventDefault();
          // What somebody else has seen here before is nothing for this one.
          login.mutate({ name: name.trim(), password }, { onSuccess: () => queryClient.clear() });
        }}
      >
        <h1>
          <svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
            <rect width="32" height="32" rx="7" className="brand-ground" />
            <path d="M9 7v18M23 7v18M9 16h14" className="brand-lines" />
          </svg>
          Holdfast
        </h1>
        {fault ? (
          <div className="failure" role="alert">
            <Sign tone="bad" size={18} />
            <div>{fault}</div>
          </div>
        ) : null}
        {ended ? <p className="note">The login has ended. Log in again to go on.</p> : null}
        <TextInput
          label="User"
          name="username"
          autoComplete="username"
          autoCapitalize="none"
          spellCheck={false}
          autoFocus
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <PasswordInput
          label="Password"
          name="password"
          autoComplete="current-password"
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
        />
        {login.error ? <Failure error={login.error} /> : null}
        <Button
          type="submit"
          loading={login.isPending}
          disabled={name.trim() === '' || password === ''}
        >
          Log in
        </Button>
        {provider ? (
          <Button component="a" href={provider.url} variant="default" onClick={rememberPlace}>
            Sign in with {provider.name}
          </Button>
        ) : null}
        <p className="note">
          No user yet? The first is made on a node's machine, as root:{' '}
          <code>holdfast user create</code>. A demo's user is <code>admin</code>, and the password
          is in the file <code>admin-password</code> of its directory.
        </p>
      </form>
    </main>
  );
}
