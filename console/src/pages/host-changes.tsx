import { PasswordInput, TextInput } from '@mantine/core';
import { useState } from 'react';
import { ask, client } from '../api/client';
import { useChange } from '../api/queries';
import type { Initiator, InitiatorPut } from '../api/types';
import { Dialog, Tick } from '../parts/dialog';
import { Outdated, unchanged } from '../parts/outdated';
import { RemovalDialog } from '../parts/removal';
import { say } from '../parts/say';
import { initiatorFault } from './wizard-rules';

const SECRET = /^[ -~]{12,255}$/;
const SECRET_FAULT = '12 to 255 letters';

type Props<T> = {
  opened: T;
  /** As they are on record now. */
  all: Initiator[];
  onClose: () => void;
};

/** How an initiator proves who it is; one that is not on record is put there. */
export function PutDialog({
  opened,
  all,
  called = '',
  onClose,
}: Props<Initiator | null> & {
  /** The name of one that is to be put on record, where it is known. */
  called?: string;
}) {
  /** What is changed is what was shown, and not what somebody else makes of it meanwhile. */
  const [initiator, setInitiator] = useState(opened);
  const [name, setName] = useState(initiator?.name ?? called);
  const [proves, setProves] = useState(initiator?.chap_name != null);
  const [chap, setChap] = useState({ name: initiator?.chap_name ?? '', secret: '' });
  const [mutually, setMutually] = useState(initiator?.mutual_name != null);
  const [mutual, setMutual] = useState({ name: initiator?.mutual_name ?? '', secret: '' });
  const show = (now: Initiator) => {
    setInitiator(now);
    setProves(now.chap_name != null);
    setChap({ name: now.chap_name ?? '', secret: '' });
    setMutually(now.mutual_name != null);
    setMutual({ name: now.mutual_name ?? '', secret: '' });
  };
  const put = useChange((body: InitiatorPut) =>
    ask(
      client.PUT('/api/v1/initiators/{name}', {
        params: { path: { name: name.trim() }, header: unchanged(initiator) },
        // One that is added replaces none.
        headers: initiator ? {} : { 'If-None-Match': '*' },
        body,
      }),
    ),
  );
  const good = (account: typeof chap) => account.name !== '' && SECRET.test(account.secret);
  const nameFault = initiatorFault(name.trim());
  const ready = nameFault === undefined && (!proves || (good(chap) && (!mutually || good(mutual))));
  return (
    <Dialog
      title={initiator ? 'Change how a host proves itself' : 'Add a host'}
      does={initiator ? 'Change' : 'Add host'}
      ready={ready}
      busy={put.isPending}
      error={put.error}
      onClose={onClose}
      onDo={() =>
        put.mutate(
          { ...(proves ? { chap } : {}), ...(proves && mutually ? { mutual } : {}) },
          {
            onSuccess: () => {
              say(`${name.trim()} is on record`);
              onClose();
            },
          },
        )
      }
    >
      <Outdated
        order={put}
        shown={initiator}
        latest={all.find((one) => one.name === name.trim())}
        onShow={show}
      />
      <TextInput
        data-autofocus
        label="Initiator"
        description="Its iSCSI name. On Linux it is in /etc/iscsi/initiatorname.iscsi."
        placeholder="iqn.1993-08.org.debian:01:2d4f1a"
        disabled={initiator !== null || called !== ''}
        value={name}
        error={name === '' ? undefined : nameFault}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <Tick label="It proves who it is (CHAP)" value={proves} onChange={setProves} />
      {proves ? <Account what="its" account={chap} change={setChap} /> : null}
      {proves ? (
        <Tick
          label="Targets prove to it who they are, too"
          value={mutually}
          onChange={setMutually}
        />
      ) : null}
      {proves && mutually ? (
        <Account what="the target's" account={mutual} change={setMutual} />
      ) : null}
      {initiator?.chap_name ? (
        <p className="note">
          Secrets are not told again: what is on record is replaced as a whole.
        </p>
      ) : null}
    </Dialog>
  );
}

function Account({
  what,
  account,
  change,
}: {
  what: string;
  account: { name: string; secret: string };
  change: (to: { name: string; secret: string }) => void;
}) {
  return (
    <div className="fields fields-inner">
      <TextInput
        label={`CHAP name (${what})`}
        autoComplete="off"
        value={account.name}
        onChange={(event) => change({ ...account, name: event.currentTarget.value })}
      />
      <PasswordInput
        label={`Secret (${what})`}
        description="12 to 255 letters"
        autoComplete="new-password"
        value={account.secret}
        error={account.secret !== '' && !SECRET.test(account.secret) ? SECRET_FAULT : undefined}
        onChange={(event) => change({ ...account, secret: event.currentTarget.value })}
      />
    </div>
  );
}

/** An initiator is on record no more. */
export function RemoveDialog({ opened, all, onClose }: Props<Initiator>) {
  const { name } = opened;
  return (
    <RemovalDialog
      title="Forget a host"
      does="Forget"
      present={opened}
      latest={all.find((one) => one.name === name)}
      remove={(shown) =>
        ask(
          client.DELETE('/api/v1/initiators/{name}', {
            params: { path: { name }, header: unchanged(shown) },
          }),
        )
      }
      done={`${name} is forgotten`}
      onDone={onClose}
      onClose={onClose}
    >
      {({ chap_name: chap }) => (
        <p>
          {chap ? `It proves who it is by CHAP, as ${chap}.` : 'Its name is believed.'} What it
          proves itself by goes with it. Volumes that are for everybody stay within its reach.
        </p>
      )}
    </RemovalDialog>
  );
}
