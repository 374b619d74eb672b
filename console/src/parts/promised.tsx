import { useQuery } from '@tanstack/react-query';
import { alarmKindsQuery } from '../api/queries';
import type { Status } from '../api/types';
import { promised } from '../text/promised';
import { Explained, Sign } from './basic';

type Props = {
  more: number;
  /** The cluster without that; undefined if it is not known. */
  status: Status | undefined;
};

/** How much of the pool is promised with so many bytes more, copies counted, and what follows if that is all of it. It stops nobody. */
export function Promised({ more, status }: Props) {
  const kinds = useQuery(alarmKindsQuery).data?.kinds;
  const told = status ? promised(status, more, kinds) : null;
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
