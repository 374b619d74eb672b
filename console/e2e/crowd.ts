// A cluster as large as they come, as far as a page can tell: what nodes answer is made more of on its way to the browser.
import type { Page } from 'playwright-core';
import type { Node, Traffic, VolumeSummary, VolumeTraffic } from '../src/api/types.ts';

export const VOLUMES = 1_000;
export const NODES = 64;

/** Gives a page a thousand volumes, each of them busy and never twice the same, on 64 nodes. */
export async function crowd(page: Page): Promise<void> {
  await answer<{ volumes: VolumeSummary[] }>(page, '/api/v1/volumes', ({ volumes }) => ({
    volumes: many(VOLUMES, volumes[0], (one, at) => ({ ...one, name: named('v', at), volume: at })),
  }));
  await answer<{ nodes: Node[] }>(page, '/api/v1/nodes', ({ nodes }) => ({
    nodes: many(NODES, nodes[0], (one, at) => ({ ...one, name: named('n', at), node: at })),
  }));
  await answer<Traffic>(page, '/api/v1/traffic', (traffic) => ({
    ...traffic,
    volumes: many(VOLUMES, busy(), (_, at) => ({ ...busy(), volume: named('v', at) })),
  }));
}

const named = (letter: string, at: number) => `${letter}${String(at).padStart(4, '0')}`;

function many<T>(count: number, one: T | undefined, made: (one: T, at: number) => T): T[] {
  if (one === undefined) throw new Error('there is not even one');
  return Array.from({ length: count }, (_, at) => made(one, at + 1));
}

function busy(): VolumeTraffic {
  const some = () => ({
    per_second: Math.random() * 50_000,
    bytes_per_second: Math.random() * 1e9,
    latency: {
      mean_us: 200,
      p50_us: 180,
      p99_us: Math.random() * 5_000,
      p999_us: 6_000,
      max_us: 9_000,
    },
  });
  return { volume: '', reads: some(), writes: some(), all: some() };
}

/** What the node says at a path, with something done to it. */
async function answer<T>(page: Page, path: string, change: (document: T) => T): Promise<void> {
  await page.route(
    (url) => url.pathname === path,
    async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: change((await response.json()) as T) });
    },
  );
}
