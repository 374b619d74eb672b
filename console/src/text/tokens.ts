import { now as clock } from '../api/clock';
import type { Token } from '../api/types';
import { moment, span } from './units';
import type { Tone } from './words';

/** So long before it ends a token is marked: whoever has to replace it may be away for a week. */
export const SOON_MS = 14 * 86_400_000;

/** Until when a token holds, and whether somebody has to do something about it. */
export function expiry(
  { expires_ms }: Pick<Token, 'expires_ms'>,
  now = clock(),
): { word: string; tone: Tone; tip: string } {
  const left = expires_ms - now;
  const until = moment(expires_ms, now);
  if (left <= 0) {
    return { word: 'expired', tone: 'bad', tip: `It has held until ${until}: it is refused.` };
  }
  if (left > SOON_MS) return { word: until, tone: 'good', tip: `In ${span(left / 1000)}.` };
  return {
    word: `in ${span(left / 1000)}`,
    tone: 'warn',
    tip: `It holds until ${until}. Make another one, and give it to what shows this one, before that.`,
  };
}
