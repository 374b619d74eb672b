import { Problem, Unreached } from './client';

/** How long commands took, in microseconds. */
export type Latency = {
  mean_us: number;
  p50_us: number;
  p99_us: number;
  p999_us: number;
  max_us: number;
};

/** Commands of one kind in one step. */
export type Flow = {
  per_second: number;
  bytes_per_second: number;
  latency: Latency | null;
};

export type HistoryPoint = { at_ms: number; reads: Flow; writes: Flow; others: Flow };

export type History = {
  from_ms: number;
  until_ms: number;
  step_seconds: number;
  silent: string[];
  points: HistoryPoint[];
};

/** Whose history. */
export type Subject =
  | { of: 'cluster' }
  | { of: 'volume'; name: string }
  | { of: 'node'; name: string };

export function historyPath(subject: Subject): string {
  switch (subject.of) {
    case 'cluster':
      return '/api/v1/history';
    case 'volume':
      return `/api/v1/volumes/${encodeURIComponent(subject.name)}/history`;
    case 'node':
      return `/api/v1/nodes/${encodeURIComponent(subject.name)}/history`;
  }
}

/** The history of the last `seconds`; null if this node keeps none. */
export async function readHistory(
  subject: Subject,
  seconds: number,
  signal: AbortSignal,
): Promise<History | null> {
  const until = Date.now();
  const query = new URLSearchParams({
    from_ms: String(until - seconds * 1000),
    until_ms: String(until),
  });
  let response: Response;
  try {
    response = await fetch(`${historyPath(subject)}?${query}`, { signal });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Unreached('the node does not answer', { cause: error });
  }
  if (response.status === 404) return null;
  const body = await response.json().catch(() => ({}));
  if (!response.ok) {
    throw new Problem({
      title: body.title ?? `HTTP status ${response.status}`,
      detail: body.detail ?? 'the answer does not say what went wrong',
      hint: body.hint ?? null,
      status: response.status,
    });
  }
  return body as History;
}
