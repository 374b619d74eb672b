/** What is read again because something was told: some moments after that, and while more and more is told all the same. */

/** The log has an event some moments after the stream: the node that steers looks once a second. */
export const QUIET_MS = 1_500;
/** So often it is read while something is told without a pause. */
export const STEADY_MS = 4_000;

export type Again = {
  /** Something was told. */
  told: () => void;
  /** Nothing is read any more. */
  end: () => void;
};

/**
 * Has `read` called a moment after the last thing that was told, and at least so often while things are told. Where it says that it
 * could not, because it is under way already and may not see what was told last, it is called again a moment later.
 */
export function again(read: () => boolean): Again {
  let timer: ReturnType<typeof setTimeout> | undefined;
  /** When the first thing was told after which nothing was read. */
  let first: number | null = null;
  let last = 0;
  const wait = (ms: number) => {
    clearTimeout(timer);
    timer = setTimeout(run, ms);
  };
  const run = () => {
    if (!read()) {
      wait(QUIET_MS);
      return;
    }
    const now = performance.now();
    // What was told just now may not be there yet.
    const isQuiet = now - last >= QUIET_MS;
    first = isQuiet ? null : now;
    if (!isQuiet) wait(QUIET_MS - (now - last));
  };
  return {
    told() {
      last = performance.now();
      first ??= last;
      wait(Math.min(QUIET_MS, Math.max(0, first + STEADY_MS - last)));
    },
    end: () => clearTimeout(timer),
  };
}
