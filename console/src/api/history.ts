import { ask, client, Problem } from './client';
import type { History } from './types';

/** Whose history. */
export type Subject =
  | { of: 'cluster' }
  | { of: 'volume'; name: string }
  | { of: 'node'; name: string };

function read(subject: Subject, seconds: number, signal: AbortSignal): Promise<History> {
  const until = Date.now();
  const query = { from_ms: until - seconds * 1000, until_ms: until };
  switch (subject.of) {
    case 'cluster':
      return ask(client.GET('/api/v1/history', { params: { query }, signal }));
    case 'volume': {
      const params = { path: { name: subject.name }, query };
      return ask(client.GET('/api/v1/volumes/{name}/history', { params, signal }));
    }
    case 'node': {
      const params = { path: { name: subject.name }, query };
      return ask(client.GET('/api/v1/nodes/{name}/history', { params, signal }));
    }
  }
}

/** The history of the last `seconds`; null if there is nothing of that name. */
export async function readHistory(
  subject: Subject,
  seconds: number,
  signal: AbortSignal,
): Promise<History | null> {
  try {
    return await read(subject, seconds, signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}
