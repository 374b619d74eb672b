import createClient from 'openapi-fetch';
import { note } from './clock';
import type { paths } from './schema';
import type { ProblemDocument } from './types';

/** How long an answer may take. A node that asks others gives up on them sooner. */
const PATIENCE_MS = 10_000;

/** An answer that says what went wrong. */
export class Problem extends Error {
  readonly title: string;
  readonly detail: string;
  readonly hint: string | null;
  readonly status: number;
  /** What kind it is, for programs. */
  readonly kind: string | null;

  constructor(
    document: Pick<ProblemDocument, 'title' | 'detail' | 'status'> & {
      hint?: string | null;
      type?: string;
    },
  ) {
    super(document.detail);
    this.title = document.title;
    this.detail = document.detail;
    this.hint = document.hint ?? null;
    this.status = document.status;
    this.kind = document.type ?? null;
  }
}

/** What was asked for is there, and not all that goes with it: that was refused. */
export class DoneInPart extends Problem {}

/** No answer: the node that served this page is not there, or not to be reached. */
export class Unreached extends Error {}

async function carry(request: Request): Promise<Response> {
  const patience = AbortSignal.timeout(PATIENCE_MS);
  try {
    const response = await fetch(request, {
      signal: AbortSignal.any([request.signal, patience]),
    });
    note(response.headers.get('date'));
    return response;
  } catch (error) {
    if (request.signal.aborted) throw error;
    throw new Unreached('the node does not answer', { cause: error });
  }
}

export const client = createClient<paths>({
  baseUrl: globalThis.location?.origin ?? '',
  fetch: carry,
});

type Answer<T> = { data?: T; error?: unknown; response: Response };

/** What was asked for, or an error that can be shown. */
export async function ask<T>(answer: Promise<Answer<T>>): Promise<T> {
  const { data, error, response } = await answer;
  if (response.ok) return data as T;
  throw asProblem(error, response.status);
}

function asProblem(error: unknown, status: number): Problem {
  const given = (
    typeof error === 'object' && error !== null ? error : {}
  ) as Partial<ProblemDocument>;
  return new Problem({
    title: given.title ?? `HTTP status ${status}`,
    detail: given.detail ?? 'the answer does not say what went wrong',
    hint: given.hint ?? null,
    status,
    type: given.type,
  });
}

/** Any error as something to be shown. */
export function told(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof Unreached) {
    return new Problem({
      title: 'no answer',
      detail: 'the node that served this page does not answer',
      hint: 'try again, or open the console of another node',
      status: 0,
    });
  }
  return new Problem({
    title: 'the console failed',
    detail: error instanceof Error ? error.message : String(error),
    hint: 'load the page again',
    status: 0,
  });
}

/** Whether an error says that nobody knows who asks. */
export function unknown(error: unknown): boolean {
  return error instanceof Problem && error.status === 401;
}

/** Whether an error says that whoever asks may not: asked again, the answer is the same. */
export function forbidden(error: unknown): boolean {
  return error instanceof Problem && error.status === 403;
}
