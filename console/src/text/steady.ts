/** Times left that do not jump: they are worked out from what was copied in the last seconds, which is more or less each time. */

export type Shown = { seconds: number; at: number };

/** What is within this part of what is shown, or this many seconds, does not change it. */
const PART = 0.25;
const SECONDS = 5;
/** How much of a larger difference is taken over at a time. */
const STEP = 0.3;
/** What is further away than this many times is news, and shown at once. */
const NEWS = 3;

/** What to show, after what was shown: `at` is in milliseconds. */
export function steady(before: Shown | null, seconds: number, at: number): Shown {
  if (before === null) return { seconds, at };
  // What was shown has become less meanwhile.
  const due = Math.max(0, before.seconds - (at - before.at) / 1000);
  const apart = Math.abs(seconds - due);
  if (seconds < SECONDS || seconds > due * NEWS + SECONDS || due > seconds * NEWS + SECONDS) {
    return { seconds, at };
  }
  if (apart <= Math.max(SECONDS, due * PART)) return { seconds: due, at };
  return { seconds: due + (seconds - due) * STEP, at };
}
