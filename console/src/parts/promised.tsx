import { useQuery } from '@tanstack/react-query';
import { useRef } from 'react';
import { alarmKindsQuery, clusterQuery } from '../api/queries';
import { promised } from '../text/promised';
import { Explained, Sign } from './basic';

type Props = {
  more: number;
  /** It was asked for: the pool's numbers may have it among them already, and what was told stays. */
  sent?: boolean;
};

/** How much of the pool is promised with so many bytes more, copies counted, and what follows if that is all of it. It stops nobody. */
export function Promised({ more, sent = false }: Props) {
  const status = useQuery(clusterQuery).data?.status;
  const kinds = useQuery(alarmKindsQuery).data?.kinds;
  const before = useRef<ReturnType<typeof promised>>(null);
  if (!sent || before.current === null)
    before.current = status ? promised(status, more, kinds) : null;
  const told = before.current;
  if (told === null) return null;
  return (
    <div className="promised">
      <p className="note">
        <Explained tip="What all volumes would fill with this if every block of them were written, with all copies, beside the room on all nodes that answer and are not drained.">
          Promised with it
        </Explained>
        : {told.text}.
      </p>
      {told.warning === null ? null : (
        <div className="warning" role="status">
          <Sign tone="warn" size={18} />
          <span>{told.warning}</span>
        </div>
      )}
    </div>
  );
}
