import { useRef } from 'react';
import { type Shown, steady } from '../text/steady';
import { span } from '../text/units';

/** A time left without jumps, in seconds; null if it is not known. */
export function useSteady(seconds: number | null | undefined): number | null {
  const shown = useRef<Shown | null>(null);
  const from = useRef<number | null>(null);
  if (seconds == null) {
    shown.current = null;
    from.current = null;
    return null;
  }
  // What was drawn again without news is as it was.
  if (shown.current === null || from.current !== seconds) {
    shown.current = steady(shown.current, seconds, Date.now());
    from.current = seconds;
  }
  return shown.current.seconds;
}

/** How long work takes still, as in ", 12 min left"; nothing if that is not known. */
export function Left({
  seconds,
  after = ' left',
}: {
  seconds: number | null | undefined;
  after?: string;
}) {
  const left = useSteady(seconds);
  return left === null ? null : `, ${span(left)}${after}`;
}
