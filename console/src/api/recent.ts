/** So long what was told of the present is still that, where it is asked for again and cannot be read. */
const RECENT_MS = 10_000;

type Asked<T> = { data: T | undefined; error: unknown; dataUpdatedAt: number };

/** What is told of the present; undefined if that is not known, or not any more. */
export function recent<T>({ data, error, dataUpdatedAt }: Asked<T>): T | undefined {
  return error && Date.now() - dataUpdatedAt > RECENT_MS ? undefined : data;
}
