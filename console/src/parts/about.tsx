import { useQuery } from '@tanstack/react-query';
import { nodesQuery, SLOW_MS, volumesQuery } from '../api/queries';
import { address, Link } from '../router';
import { placeOf } from '../text/alarms';

/** What an alarm is about, as a link where it has a page. */
export function About({ subject, isGone = false }: { subject: string; isGone?: boolean }) {
  const place = placeOf(subject);
  return place && !isGone ? <Link to={address(...place)}>{subject}</Link> : subject;
}

/** The same of what may have been long ago. */
export function AboutPast({ subject }: { subject: string }) {
  const isGone = useGone();
  return <About subject={subject} isGone={isGone(subject)} />;
}

/** Tells what is not there any more; what is not known may be. */
export function useGone(): (subject: string) => boolean {
  const volumes = useQuery({ ...volumesQuery, refetchInterval: SLOW_MS }).data?.volumes;
  const nodes = useQuery(nodesQuery).data?.nodes;
  return (subject) => {
    const [kind, name] = placeOf(subject) ?? [];
    const known = kind === 'volumes' ? volumes : kind === 'nodes' ? nodes : undefined;
    return known !== undefined && !known.some((one) => one.name === name);
  };
}
