import { type ComponentType, lazy } from 'react';
import { Problem } from '../api/client';

/** What is not fetched before it is wanted, or there is nothing else to do. */
const LATER: (() => Promise<unknown>)[] = [];

/** How long after the first page the rest is fetched: whoever has come wants that one first. */
const REST_MS = 2_000;

/** A component that is a file of its own. */
export function later<P extends object>(load: () => Promise<ComponentType<P>>) {
  LATER.push(load);
  return lazy(async () => {
    try {
      return { default: await load() };
    } catch (cause) {
      throw unfetched(cause);
    }
  });
}

/** Why a page is not there: which of both it is, a browser does not tell. */
function unfetched(cause: unknown): Problem {
  const problem = new Problem({
    title: 'this page could not be fetched',
    detail: 'the node that served the console does not answer, or has another version by now',
    hint: 'load the page again, or open the console of another node',
    status: 0,
  });
  problem.cause = cause;
  return problem;
}

/**
 * Fetches the rest, so that all pages are there when the node is not any more; ends that if nobody waits for it.
 * What fails is fetched when it is wanted.
 */
export function fetchLater(): () => void {
  let ended = false;
  const timer = setTimeout(async () => {
    for (const load of LATER) {
      if (ended) return;
      await load().catch(() => {});
    }
  }, REST_MS);
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}
