import { QueryClientProvider, useQuery } from '@tanstack/react-query';
import { cleanup, renderHook, waitFor } from '@testing-library/react';
import type { ReactNode } from 'react';
import { afterEach, expect, test, vi } from 'vitest';
import type { Subject } from './history';
import { historyQuery, queryClient } from './queries';

afterEach(() => {
  cleanup();
  queryClient.clear();
  vi.unstubAllGlobals();
});

test('a history of another time stands in for the one that is awaited, one of something else does not', async () => {
  const history = { from_ms: 0, until_ms: 1, step_seconds: 1, points: [], silent: [] };
  let answers = true;
  vi.stubGlobal('fetch', () =>
    answers ? Promise.resolve(Response.json(history)) : new Promise(() => {}),
  );
  const host = (initiator: string): Subject => ({ of: 'initiator', volume: 'db', initiator });
  const { result, rerender } = renderHook(
    ({ subject, seconds }: { subject: Subject; seconds: number }) =>
      useQuery(historyQuery(subject, seconds)).data,
    {
      initialProps: { subject: host('one'), seconds: 300 },
      wrapper: ({ children }: { children: ReactNode }) => (
        <QueryClientProvider client={queryClient}>{children}</QueryClientProvider>
      ),
    },
  );
  await waitFor(() => expect(result.current).toEqual(history));
  answers = false;
  rerender({ subject: host('one'), seconds: 3600 });
  expect(result.current).toEqual(history);
  rerender({ subject: host('other'), seconds: 3600 });
  expect(result.current).toBeUndefined();
});
