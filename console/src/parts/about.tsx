import { address, Link } from '../router';
import { placeOf } from '../text/alarms';

/** What an alarm is about, as a link where it has a page. */
export function About({ subject }: { subject: string }) {
  const place = placeOf(subject);
  return place ? <Link to={address(...place)}>{subject}</Link> : subject;
}
