import { type ReactNode, useState } from 'react';
import { useChange } from '../api/queries';
import { Dialog, TypedName } from './dialog';
import { Outdated, type Tagged } from './outdated';
import { say } from './say';

/** The removal of something that has a name, which is typed first: what goes is what was shown, and not what somebody else has made of it. */
export function RemovalDialog<T extends Tagged & { name: string }>({
  title,
  does,
  present,
  latest,
  remove,
  unless,
  done,
  onDone,
  onClose,
  children,
}: {
  title: string;
  /** What the button does, as in "Delete volume". */
  does: string;
  /** As it is shown when the dialog opens. */
  present: T;
  /** The same as it is on record now; none where it is gone already. */
  latest: T | undefined;
  remove: (shown: T) => Promise<unknown>;
  /** Why it cannot go as things are, if it cannot. */
  unless?: string | null;
  /** What is said of it when it is gone. */
  done: string;
  /** Where one is then. */
  onDone: () => void;
  onClose: () => void;
  /** What goes, and what that means. */
  children: (shown: T) => ReactNode;
}) {
  const [shown, setShown] = useState(present);
  const [typed, setTyped] = useState('');
  const order = useChange(() => remove(shown));
  return (
    <Dialog
      title={title}
      does={does}
      danger
      ready={typed === shown.name}
      unless={unless}
      busy={order.isPending}
      error={order.error}
      onClose={onClose}
      onDo={() =>
        order.mutate(undefined, {
          onSuccess: () => {
            say(done);
            onDone();
          },
        })
      }
    >
      <Outdated order={order} shown={shown} latest={latest} onShow={setShown} />
      {children(shown)}
      <TypedName name={shown.name} value={typed} onChange={setTyped} />
    </Dialog>
  );
}
