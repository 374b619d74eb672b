import { Autocomplete } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { allow } from '../api/access';
import { ask, client } from '../api/client';
import { initiatorsQuery, useChange } from '../api/queries';
import type { AccessChange, Volume } from '../api/types';
import { Failure, Panel } from '../parts/basic';
import { Dialog, useDialog } from '../parts/dialog';
import { Outdated, unchanged } from '../parts/outdated';
import { RoleButton, useRefusal } from '../parts/role';
import { say } from '../parts/say';
import { initiatorFault } from './wizard-rules';

/** Whom a volume is for. */
export function AccessPanel({ volume }: { volume: Volume }) {
  const { name, access } = volume;
  const [typed, setTyped] = useState('');
  const [leaving, setLeaving] = useState('');
  /** What was shown when a dialog was opened: that is what it changes. */
  const [shown, setShown] = useState(volume);
  const [dialog, open, close] = useDialog<'open' | 'disallow'>();
  const known = useQuery(initiatorsQuery).data?.initiators ?? [];
  const admit = useChange((initiator: string) => allow(name, initiator, unchanged(volume)));
  const other = useChange((body: AccessChange) => change(shown, body));
  const why = useRefusal('operator');
  if (!access) return <Panel title="Access">This node does not say whom the volume is for.</Panel>;
  const fault = initiatorFault(typed.trim());
  return (
    <Panel title="Access">
      <p>
        {access.open
          ? 'It is for every host that reaches a portal. Once a host is allowed, it is for nobody else.'
          : access.initiators.length === 0
            ? 'It is for nobody.'
            : 'It is for these hosts, and nobody else:'}
      </p>
      {access.initiators.length > 0 ? (
        <ul className="rows">
          {access.initiators.map((initiator) => (
            <li key={initiator}>
              <span className="mono">{initiator}</span>
              <RoleButton
                takes="operator"
                variant="default"
                size="compact-xs"
                onClick={() => {
                  setLeaving(initiator);
                  setShown(volume);
                  other.reset();
                  open('disallow');
                }}
                aria-label={`Take it from ${initiator}`}
              >
                Take it from this host
              </RoleButton>
            </li>
          ))}
        </ul>
      ) : null}
      {why === null ? null : <p className="note">It can be seen, and not changed. {why}</p>}
      <form
        className="inline-form"
        onSubmit={(event) => {
          event.preventDefault();
          const initiator = typed.trim();
          if (fault) return;
          admit.mutate(initiator, {
            onSuccess: () => {
              say(`${name} is for ${initiator}`);
              setTyped('');
            },
          });
        }}
      >
        <Autocomplete
          label="Allow a host"
          disabled={why !== null}
          placeholder="iqn.1993-08.org.debian:01:2d4f1a"
          data={known
            .map((initiator) => initiator.name)
            .filter((one) => !access.initiators.includes(one))}
          value={typed}
          error={typed === '' ? undefined : fault}
          onChange={setTyped}
        />
        <RoleButton
          takes="operator"
          type="submit"
          disabled={fault !== undefined}
          loading={admit.isPending}
        >
          Allow
        </RoleButton>
        {access.open ? null : (
          <RoleButton
            takes="operator"
            variant="default"
            onClick={() => {
              setShown(volume);
              other.reset();
              open('open');
            }}
          >
            Open for everybody
          </RoleButton>
        )}
      </form>
      {admit.error ? <Failure error={admit.error} /> : null}
      <Outdated order={admit} shown={null} latest={volume} onShow={setShown} />
      {dialog === 'open' ? (
        <Dialog
          title={`Open ${name} for everybody`}
          does="Open"
          busy={other.isPending}
          error={other.error}
          onClose={close}
          onDo={() => other.mutate({ open: true }, { onSuccess: close })}
        >
          <Outdated order={other} shown={shown} latest={volume} onShow={setShown} />
          <p>{forWhom(shown)} Every host that reaches a portal can read and write it then.</p>
        </Dialog>
      ) : null}
      {dialog === 'disallow' ? (
        <Dialog
          title={`Take ${name} from a host`}
          does="Take it"
          danger
          busy={other.isPending}
          error={other.error}
          onClose={close}
          onDo={() => other.mutate({ disallow: leaving }, { onSuccess: close })}
        >
          <Outdated order={other} shown={shown} latest={volume} onShow={setShown} />
          <p>{forWhom(shown)}</p>
          <p>
            <span className="mono">{leaving}</span> loses the volume at once. When that is answered,
            nothing that it has sent is written any more.
          </p>
        </Dialog>
      ) : null}
    </Panel>
  );
}

/** Whom a volume is for, in a sentence. */
function forWhom({ access }: Volume): string {
  if (!access || access.open) return 'It is for every host.';
  return `It is for ${access.initiators.join(', ') || 'nobody'}.`;
}

function change(shown: Volume, body: AccessChange) {
  const params = { path: { name: shown.name }, header: unchanged(shown) };
  return ask(client.PATCH('/api/v1/volumes/{name}/access', { params, body }));
}
