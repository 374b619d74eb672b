import type { UseMutationResult } from '@tanstack/react-query';
import { DoneInPart, Problem } from './client';

/** What names a request, so that it is done once however often it is sent. */
export function freshKey(): string {
  // `randomUUID` is there over TLS only.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The key of what is asked for otherwise than before: a request that got no answer may have been done, and keeps its own. */
export function keyAfter(error: unknown, key: string): string {
  return isAnswer(error) ? freshKey() : key;
}

/** Whether something was asked for and may have been done, or be done yet: it was not refused, or what goes with it was. */
export function wasSent({
  isIdle,
  error,
}: Pick<UseMutationResult<unknown, unknown, never>, 'isIdle' | 'error'>): boolean {
  return !isIdle && (error instanceof DoneInPart || !refused(error));
}

/** Where the node itself had trouble it may have been done, unless too many asked. */
function refused(error: unknown): boolean {
  return isAnswer(error) && (error.status < 500 || error.kind === BUSY);
}

const BUSY = 'urn:holdfast:problem:busy';

function isAnswer(error: unknown): error is Problem {
  return error instanceof Problem && error.status > 0;
}
