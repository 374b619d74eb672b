import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, test } from 'vitest';
import { nodesQuery, queryClient } from '../api/queries';
import type { Node } from '../api/types';
import { Prose } from './prose';

afterEach(() => {
  cleanup();
  queryClient.clear();
});

test('a node that is called as our texts begin is called so', () => {
  const nodes = [{ name: 'it' } as Node];
  queryClient.setQueryData(nodesQuery.queryKey, { nodes });
  render(
    <>
      <Prose text="it is down" alone />
      <p>
        <Prose text="nothing is known of it" alone />
      </p>
    </>,
  );
  screen.getByText('it is down');
  screen.getByText('Nothing is known of it');
});
