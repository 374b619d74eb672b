import { queryOptions } from '@tanstack/react-query';
import { ask, client } from './client';
import type { components } from './schema';

type Schemas = components['schemas'];

export type Retention = Schemas['Retention'];
export type RetentionChange = Schemas['RetentionChange'];
export type NodeRetention = Schemas['NodeRetention'];
export type KeptLog = Schemas['KeptLog'];
export type KeptHistory = Schemas['KeptHistory'];

/** Nodes follow a change within five seconds. */
const FOLLOWED_MS = 5_000;

export const retentionQuery = queryOptions({
  queryKey: ['retention'],
  queryFn: ({ signal }) => ask(client.GET('/api/v1/retention', { signal })),
  refetchInterval: FOLLOWED_MS,
});
