import { TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { ask, client, Problem } from '../api/client';
import { wasSent } from '../api/key';
import { clusterQuery, useChange, volumesQuery } from '../api/queries';
import type { Volume } from '../api/types';
import { Sign } from '../parts/basic';
import { Dialog, Tick } from '../parts/dialog';
import { Outdated, unchanged } from '../parts/outdated';
import { Promised } from '../parts/promised';
import { RemovalDialog } from '../parts/removal';
import { say } from '../parts/say';
import { navigate } from '../router';
import { bytes, parseBytes, plural } from '../text/units';
import { POLICIES } from '../text/words';
import { sizeFault } from './wizard-rules';

type Props = {
  /** As it is on record now. */
  volume: Volume;
  onClose: () => void;
};

/** What is so until something was asked for, and from then on what was so before: the pool's numbers may have that among them already. */
function useBefore<T>(value: T, sent: boolean): T {
  const before = useRef(value);
  if (!sent) before.current = value;
  return before.current;
}

export function GrowDialog({ volume: latest, onClose }: Props) {
  /** What is ordered is for what was shown, and not for what somebody else makes of it meanwhile. */
  const [volume, setVolume] = useState(latest);
  const { name } = volume;
  const [size, setSize] = useState('');
  const grow = useChange((to: number) =>
    ask(
      client.PATCH('/api/v1/volumes/{name}', {
        params: { path: { name }, header: unchanged(volume) },
        body: { bytes: to },
      }),
    ),
  );
  const status = useQuery(clusterQuery).data?.status;
  const before = useBefore({ status, bytes: latest.bytes }, wasSent(grow));
  const count = parseBytes(size);
  const fault =
    sizeFault(size) ??
    (count !== null && count <= volume.bytes
      ? 'more than it has: volumes do not shrink'
      : undefined);
  return (
    <Dialog
      title={`Grow ${name}`}
      does="Grow"
      ready={fault === undefined}
      busy={grow.isPending}
      error={grow.error}
      onClose={onClose}
      onDo={() =>
        grow.mutate(count ?? 0, {
          onSuccess: () => {
            say(`${name} has ${bytes(count ?? 0)} now`);
            onClose();
          },
        })
      }
    >
      <Outdated order={grow} shown={volume} latest={latest} onShow={setVolume} />
      <p>
        It has {bytes(volume.bytes)}, and stays in use while it grows. Hosts look for the new size
        when they are told to rescan.
      </p>
      <TextInput
        data-autofocus
        label="New size"
        placeholder={bytes(volume.bytes * 2)}
        autoComplete="off"
        value={size}
        error={size === '' ? undefined : fault}
        rightSectionWidth={110}
        rightSection={count === null ? null : <span className="dim">{bytes(count)}</span>}
        onChange={(event) => setSize(event.currentTarget.value)}
      />
      {fault === undefined && count !== null ? (
        <>
          <p className="note">
            Full, it takes {bytes(count * POLICIES[volume.policy].copies)} of the pool, with all
            copies.
          </p>
          <Promised
            more={(count - before.bytes) * POLICIES[volume.policy].copies}
            status={before.status}
          />
        </>
      ) : null}
    </Dialog>
  );
}

export function ScrubDialog({ name, onClose }: { name: string; onClose: () => void }) {
  const scrub = useChange(() =>
    ask(client.POST('/api/v1/volumes/{name}/scrub', { params: { path: { name } } })),
  );
  return (
    <Dialog
      title={`Scrub ${name}`}
      does="Begin to scrub"
      busy={scrub.isPending}
      error={scrub.error}
      onClose={onClose}
      onDo={() =>
        scrub.mutate(undefined, {
          onSuccess: () => {
            say(`The scrub of ${name} has begun`);
            onClose();
          },
        })
      }
    >
      <p>
        Every block of it is read on every node that has a copy, and the copies are compared. What
        is bad or differs is put right. Hosts notice no more of it than the settings allow.
      </p>
    </Dialog>
  );
}

const FORCE = 'Also if hosts use it (force)';

/** Why it was refused; what the command line has an option for is a box here. */
function boxed(error: unknown): unknown {
  if (!(error instanceof Problem) || error.hint === null) return error;
  const { title, detail, status, kind } = error;
  const hint = error.hint.replace(/`holdfast volume delete \S+ --force`/, `the tick at “${FORCE}”`);
  return new Problem({ title, detail, status, hint, type: kind ?? undefined });
}

export function DeleteDialog({ volume, onClose }: Props) {
  const { name } = volume;
  const volumes = useQuery(volumesQuery).data?.volumes;
  const sessions = volumes?.find((one) => one.name === name)?.sessions ?? 0;
  const [force, setForce] = useState(false);
  return (
    <RemovalDialog
      title={`Delete ${name}`}
      does="Delete volume"
      present={volume}
      latest={volume}
      remove={(shown) =>
        ask(
          client.DELETE('/api/v1/volumes/{name}', {
            params: { path: { name }, query: { force }, header: unchanged(shown) },
          }),
        ).catch((error) => {
          throw boxed(error);
        })
      }
      unless={
        sessions > 0 && !force ? `Hosts use it: log out there first, or tick “${FORCE}”.` : null
      }
      done={`Volume ${name} was deleted`}
      onDone={() => navigate('/volumes')}
      onClose={onClose}
    >
      {({ bytes: size, access }) => (
        <>
          <p>
            It has {bytes(size)}
            {access
              ? `, for ${access.open ? 'every host' : access.initiators.join(', ') || 'nobody'}`
              : ''}
            . All its data goes, on all nodes, and does not come back.
          </p>
          {sessions > 0 ? (
            <div className="warning">
              <Sign tone="warn" size={18} />
              <span>
                {plural(sessions, 'session')} of hosts {sessions === 1 ? 'is' : 'are'} open with its
                target now. Log out there first, or tick the box below: what hosts do with it fails
                then.
              </span>
            </div>
          ) : null}
          <Tick label={FORCE} value={force} onChange={setForce} />
        </>
      )}
    </RemovalDialog>
  );
}
