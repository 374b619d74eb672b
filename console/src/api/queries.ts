import {
  hashKey,
  keepPreviousData,
  QueryCache,
  QueryClient,
  queryOptions,
  type UseMutationResult,
  useMutation,
  useQueryClient,
} from '@tanstack/react-query';
import { PIECE_MAX } from '../text/events';
import { ask, client, unknown } from './client';
import { now } from './clock';
import { readHistory, type Subject } from './history';
import type { Event, TargetSession } from './types';

/** What changes while one looks at it. */
export const LIVE_MS = 1_000;
/** What changes when somebody changes it. */
export const SLOW_MS = 5_000;

export const queryClient = new QueryClient({
  // Whatever is answered so: the login has ended, and the session says it.
  queryCache: new QueryCache({
    onError: (error) => {
      if (unknown(error)) {
        queryClient.invalidateQueries({ queryKey: ['session'] });
      }
    },
  }),
  defaultOptions: {
    queries: {
      // The next poll is the next try; an error is shown beside what was known last.
      retry: false,
      staleTime: 500,
      placeholderData: keepPreviousData,
      networkMode: 'always',
    },
    mutations: { retry: false, networkMode: 'always' },
  },
});

/** Who asks, as the node knows that one; null if it does not. */
export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: async ({ signal }) => {
    try {
      return await ask(client.GET('/api/v1/session', { signal }));
    } catch (error) {
      if (unknown(error)) return null;
      throw error;
    }
  },
  refetchInterval: 6 * SLOW_MS,
});

/** How one can log in. It is of the node's file, and changes with its next start. */
export const loginQuery = queryOptions({
  queryKey: ['login'],
  queryFn: ({ signal }) => ask(client.GET('/api/v1/login', { signal })),
  staleTime: Number.POSITIVE_INFINITY,
});

/** How the cluster is, and why: asked for together, or one would be of another moment than the other. */
export const clusterQuery = queryOptions({
  queryKey: ['cluster'],
  queryFn: async ({ signal }) => {
    const [status, explanation] = await Promise.all([
      ask(client.GET('/api/v1/status', { signal })),
      ask(client.GET('/api/v1/explain', { signal })),
    ]);
    return { status, explanation };
  },
  refetchInterval: LIVE_MS,
});

export const nodesQuery = queryOptions({
  queryKey: ['nodes'],
  queryFn: ({ signal }) => ask(client.GET('/api/v1/nodes', { signal })),
  refetchInterval: LIVE_MS,
});

export const nodeQuery = (name: string) =>
  queryOptions({
    queryKey: ['node', name],
    queryFn: ({ signal }) =>
      ask(client.GET('/api/v1/nodes/{name}', { params: { path: { name } }, signal })),
    refetchInterval: LIVE_MS,
    placeholderData: undefined,
  });

/** A node tells of its own devices: of one that is away there is what it said last, for as long as the page is open. */
export const devicesQuery = (name: string, every: number = LIVE_MS) =>
  queryOptions({
    gcTime: Number.POSITIVE_INFINITY,
    queryKey: ['devices', name],
    queryFn: ({ signal }) =>
      ask(client.GET('/api/v1/nodes/{name}/devices', { params: { path: { name } }, signal })),
    refetchInterval: every,
    placeholderData: undefined,
  });

export const localQuery = queryOptions({
  queryKey: ['local'],
  queryFn: ({ signal }) => ask(client.GET('/api/v1/local/cluster', { signal })),
  refetchInterval: SLOW_MS,
});

export const volumesQuery = queryOptions({
  queryKey: ['volumes'],
  queryFn: ({ signal }) => ask(client.GET('/api/v1/volumes', { signal })),
  // A thousand volumes are a quarter of a megabyte: not each second.
  refetchInterval: (query) => ((query.state.data?.volumes.length ?? 0) > 200 ? SLOW_MS : LIVE_MS),
});

/** What hosts do with each volume: of the last five seconds, so no more often than people read. */
export const trafficQuery = queryOptions({
  queryKey: ['traffic'],
  queryFn: ({ signal }) => ask(client.GET('/api/v1/traffic', { signal })),
  refetchInterval: 2 * LIVE_MS,
});

export const volumeQuery = (name: string) =>
  queryOptions({
    queryKey: ['volume', name],
    queryFn: ({ signal }) =>
      ask(client.GET('/api/v1/volumes/{name}', { params: { path: { name } }, signal })),
    refetchInterval: LIVE_MS,
    placeholderData: undefined,
  });

export const initiatorsQuery = queryOptions({
  queryKey: ['initiators'],
  queryFn: ({ signal }) => ask(client.GET('/api/v1/initiators', { signal })),
  refetchInterval: SLOW_MS,
});

export const volumeSessionsQuery = (name: string) =>
  queryOptions({
    queryKey: ['sessions', 'volume', name],
    queryFn: ({ signal }) =>
      ask(client.GET('/api/v1/volumes/{name}/sessions', { params: { path: { name } }, signal })),
    refetchInterval: 2 * LIVE_MS,
    placeholderData: undefined,
  });

/** Sessions in a piece: as many as one may ask for. */
const SESSIONS_IN_PIECE = 1_000;
/** Pieces of sessions at most: for each the node asks all others. */
const SESSION_PIECES_MAX = 16;

/** Sessions of all hosts with all targets. */
export const sessionsQuery = queryOptions({
  queryKey: ['sessions', 'all'],
  queryFn: async ({ signal }) => {
    const sessions: TargetSession[] = [];
    const silent = new Set<string>();
    let after: string | undefined;
    for (let piece = 0; piece < SESSION_PIECES_MAX; piece += 1) {
      const query = { limit: SESSIONS_IN_PIECE, after };
      const list = await ask(client.GET('/api/v1/sessions', { params: { query }, signal }));
      sessions.push(...list.sessions);
      for (const node of list.silent) silent.add(node);
      after = list.next ?? undefined;
      if (after === undefined) break;
    }
    return {
      sessions,
      silent: [...silent].sort(),
      /** There are more, which were not asked for. */
      more: after !== undefined,
    };
  },
  refetchInterval: 2 * SLOW_MS,
});

export const initiatorSessionsQuery = (name: string) =>
  queryOptions({
    queryKey: ['sessions', 'initiator', name],
    queryFn: ({ signal }) =>
      ask(client.GET('/api/v1/initiators/{name}/sessions', { params: { path: { name } }, signal })),
    refetchInterval: 2 * LIVE_MS,
    placeholderData: undefined,
  });

export const reservationsQuery = (name: string) =>
  queryOptions({
    queryKey: ['reservations', name],
    queryFn: ({ signal }) =>
      ask(
        client.GET('/api/v1/volumes/{name}/reservations', { params: { path: { name } }, signal }),
      ),
    refetchInterval: 2 * LIVE_MS,
    placeholderData: undefined,
  });

export const settingsQuery = queryOptions({
  queryKey: ['settings'],
  queryFn: ({ signal }) => ask(client.GET('/api/v1/settings', { signal })),
  refetchInterval: SLOW_MS,
});

export const usersQuery = queryOptions({
  queryKey: ['users'],
  queryFn: ({ signal }) => ask(client.GET('/api/v1/users', { signal })),
  refetchInterval: SLOW_MS,
});

export const tokensQuery = queryOptions({
  queryKey: ['tokens'],
  queryFn: ({ signal }) => ask(client.GET('/api/v1/tokens', { signal })),
  refetchInterval: SLOW_MS,
});

export const alarmsQuery = queryOptions({
  queryKey: ['alarms', 'all'],
  queryFn: ({ signal }) =>
    ask(client.GET('/api/v1/alarms', { params: { query: { state: 'all' } }, signal })),
  refetchInterval: 2 * LIVE_MS,
});

/** Those that last: a few, on each page. */
export const raisedQuery = queryOptions({
  queryKey: ['alarms', 'raised'],
  queryFn: ({ signal }) => ask(client.GET('/api/v1/alarms', { signal })),
  refetchInterval: 2 * LIVE_MS,
});

export const alarmKindsQuery = queryOptions({
  queryKey: ['alarm-kinds'],
  queryFn: ({ signal }) => ask(client.GET('/api/v1/alarm-kinds', { signal })),
  refetchInterval: 6 * SLOW_MS,
});

export const receiversQuery = queryOptions({
  queryKey: ['receivers'],
  queryFn: ({ signal }) => ask(client.GET('/api/v1/receivers', { signal })),
  refetchInterval: SLOW_MS,
});

/** Entries of the audit log that are shown: what each node tells at most. */
export const AUDIT_LIMIT = 1000;

export const auditQuery = queryOptions({
  queryKey: ['audit'],
  queryFn: ({ signal }) =>
    ask(client.GET('/api/v1/audit', { params: { query: { limit: AUDIT_LIMIT } }, signal })),
  refetchInterval: SLOW_MS,
});

/** The newest piece of the log of events; what changes meanwhile has it read anew. */
export const eventsQuery = (severity: Event['severity'], kind: Event['kind'] | '') =>
  queryOptions({
    queryKey: ['events', severity, kind],
    queryFn: ({ signal }) => {
      const query = { severity, limit: PIECE_MAX, ...(kind === '' ? {} : { kind }) };
      return ask(client.GET('/api/v1/events/log', { params: { query }, signal }));
    },
    refetchInterval: 2 * SLOW_MS,
    // What was asked for of another weight or kind is not an answer.
    placeholderData: undefined,
  });

/** Stalls shown at most: what a node keeps is about as much. */
export const STALLS_LIMIT = 200;

export const stallsQuery = (volume: string | null, since: number | null) =>
  queryOptions({
    queryKey: ['stalls', volume, since],
    queryFn: ({ signal }) => {
      const query = {
        limit: STALLS_LIMIT,
        initiators: true,
        ...(since === null ? {} : { since_ms: now() - since }),
      };
      if (volume === null) return ask(client.GET('/api/v1/stalls', { params: { query }, signal }));
      const path = { name: volume };
      return ask(client.GET('/api/v1/volumes/{name}/stalls', { params: { path, query }, signal }));
    },
    refetchInterval: 2 * LIVE_MS,
  });

/** Long work under way. */
export const tasksQuery = queryOptions({
  queryKey: ['tasks'],
  queryFn: ({ signal }) => ask(client.GET('/api/v1/tasks', { signal })),
  // A node that comes back may have a thousand copies to be brought.
  refetchInterval: (query) => ((query.state.data?.tasks.length ?? 0) > 200 ? SLOW_MS : LIVE_MS),
});

/** A history of the last `seconds`, asked for as often as it can have become another. */
export const historyQuery = (subject: Subject, seconds: number) =>
  queryOptions({
    queryKey: ['history', subject, seconds],
    queryFn: ({ signal }) => readHistory(subject, seconds, signal),
    // Of another time until that is there, and never of something else.
    placeholderData: (before, query) =>
      query && hashKey([query.queryKey[1]]) === hashKey([subject]) ? before : undefined,
    refetchInterval: (query) => {
      if (query.state.data === null) return 30_000;
      return Math.min(60_000, Math.max(LIVE_MS, seconds));
    },
  });

/** What a device does at present: the newest ten seconds of the last thirty that there are. */
export const deviceWorkQuery = (node: string, device: number) =>
  queryOptions({
    queryKey: ['history', 'work', node, device],
    queryFn: ({ signal }) => readHistory({ of: 'device', node, device }, 30, signal, 10),
    refetchInterval: SLOW_MS,
    placeholderData: undefined,
  });

/** A change; whatever it touches is read again when it is done. */
export function useChange<V, R>(change: (value: V) => Promise<R>): UseMutationResult<R, Error, V> {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSettled: () => queries.invalidateQueries(),
  });
}
