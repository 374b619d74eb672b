import { ask, client, Problem } from './client';
import { now } from './clock';
import type { DeviceTier, History } from './types';

/** Whose history. */
export type Subject =
  | { of: 'cluster' }
  | { of: 'tier'; tier: DeviceTier }
  | { of: 'volume'; name: string }
  | { of: 'initiator'; volume: string; initiator: string }
  | { of: 'host'; initiator: string }
  | { of: 'node'; name: string }
  | { of: 'device'; node: string; device: number };

type Query = { from_ms: number; until_ms: number; step_seconds?: number };

function read(subject: Subject, query: Query, signal: AbortSignal): Promise<History> {
  switch (subject.of) {
    case 'cluster':
      return ask(client.GET('/api/v1/history', { params: { query }, signal }));
    case 'tier': {
      const params = { path: { tier: subject.tier }, query };
      return ask(client.GET('/api/v1/tiers/{tier}/history', { params, signal }));
    }
    case 'volume': {
      const params = { path: { name: subject.name }, query };
      return ask(client.GET('/api/v1/volumes/{name}/history', { params, signal }));
    }
    case 'initiator': {
      const path = { name: subject.volume, initiator: subject.initiator };
      const route = '/api/v1/volumes/{name}/initiators/{initiator}/history';
      return ask(client.GET(route, { params: { path, query }, signal }));
    }
    case 'host': {
      const params = { path: { name: subject.initiator }, query };
      return ask(client.GET('/api/v1/initiators/{name}/history', { params, signal }));
    }
    case 'node': {
      const params = { path: { name: subject.name }, query };
      return ask(client.GET('/api/v1/nodes/{name}/history', { params, signal }));
    }
    case 'device': {
      const path = { name: subject.node, device: subject.device };
      const route = '/api/v1/nodes/{name}/devices/{device}/history';
      return ask(client.GET(route, { params: { path, query }, signal }));
    }
  }
}

/** The history of the last `seconds`, in steps of `step` seconds if that is said; null if there is nothing of that name. */
export async function readHistory(
  subject: Subject,
  seconds: number,
  signal: AbortSignal,
  step?: number,
): Promise<History | null> {
  const until = now();
  const query = { from_ms: until - seconds * 1000, until_ms: until };
  try {
    return await read(subject, step ? { ...query, step_seconds: step } : query, signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}
