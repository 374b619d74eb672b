import { TextInput } from '@mantine/core';
import { useState } from 'react';
import { ask, client } from '../api/client';
import { useChange } from '../api/queries';
import type { Node, NodeChange, NodeOrder } from '../api/types';
import { Dialog } from '../parts/dialog';
import { Outdated, unchanged } from '../parts/outdated';
import { RemovalDialog } from '../parts/removal';
import { say } from '../parts/say';
import { navigate } from '../router';
import { nodeState } from '../text/words';

type Plain = Exclude<NodeOrder, 'add'>;

const ORDERS: Record<
  Plain,
  { title: (name: string) => string; does: string; means: string; done: (name: string) => string }
> = {
  'maintenance-on': {
    title: (name) => `Put ${name} aside for maintenance`,
    does: 'Begin maintenance',
    means:
      'It hands over what it leads, and hosts go on through the others. It is kept in sync while it is up, and is not rebuilt elsewhere while it is down. Meanwhile its volumes have a copy less to lose.',
    done: (name) => `${name} is in maintenance`,
  },
  'maintenance-off': {
    title: (name) => `End the maintenance of ${name}`,
    does: 'End maintenance',
    means: 'It is brought what has changed, and leads again what it is meant to.',
    done: (name) => `${name} takes its part again`,
  },
  drain: {
    title: (name) => `Drain ${name}`,
    does: 'Begin to drain',
    means:
      'Everything on it moves to other nodes, in use. That can be called off at any time. When nothing is on it any more, it can be removed.',
    done: (name) => `${name} is being drained`,
  },
  'cancel-drain': {
    title: (name) => `Call off the drain of ${name}`,
    does: 'Call it off',
    means:
      'What has gone elsewhere stays there until slices are evened out; the node takes data again.',
    done: (name) => `${name} takes data again`,
  },
};

function useOrder(node: Node) {
  return useChange((body: NodeChange) =>
    ask(
      client.PATCH('/api/v1/nodes/{name}', {
        params: { path: { name: node.name }, header: unchanged(node) },
        body,
      }),
    ),
  );
}

type Props = {
  /** As it is on record now. */
  node: Node;
  onClose: () => void;
};

/** How the node stands that is changed: as it was shown, and not as somebody else makes it stand meanwhile. */
function Stands({ node }: { node: Node }) {
  const { word, tip } = nodeState(node);
  return (
    <p className="note">
      Now it is: {word}. {tip}
    </p>
  );
}

export function OrderDialog({ node: latest, order, onClose }: Props & { order: Plain }) {
  const [node, setNode] = useState(latest);
  const { name } = node;
  const change = useOrder(node);
  const words = ORDERS[order];
  return (
    <Dialog
      title={words.title(name)}
      does={words.does}
      busy={change.isPending}
      error={change.error}
      onClose={onClose}
      onDo={() =>
        change.mutate(
          { order },
          {
            onSuccess: () => {
              say(words.done(name));
              onClose();
            },
          },
        )
      }
    >
      <Outdated order={change} shown={node} latest={latest} onShow={setNode} />
      <Stands node={node} />
      <p>{words.means}</p>
    </Dialog>
  );
}

export function AdmitDialog({ node: latest, onClose }: Props) {
  const [node, setNode] = useState(latest);
  const { name } = node;
  const change = useOrder(node);
  const [site, setSite] = useState('');
  return (
    <Dialog
      title={`Admit ${name}`}
      does="Admit"
      busy={change.isPending}
      error={change.error}
      onClose={onClose}
      onDo={() =>
        change.mutate(
          { order: 'add', ...(site.trim() ? { site: site.trim() } : {}) },
          {
            onSuccess: () => {
              say(`${name} is a part of the cluster`);
              onClose();
            },
          },
        )
      }
    >
      <Outdated order={change} shown={node} latest={latest} onShow={setNode} />
      <Stands node={node} />
      <p>It becomes a part of the cluster, and takes copies of volumes.</p>
      <TextInput
        data-autofocus
        label="Site"
        description="Where it stands. Copies are kept on different sites, as far as there are any. Nothing is a good answer, too."
        value={site}
        onChange={(event) => setSite(event.currentTarget.value)}
      />
    </Dialog>
  );
}

export function RemoveDialog({ node, onClose }: Props) {
  const { name } = node;
  return (
    <RemovalDialog
      title={`Remove ${name}`}
      does="Remove node"
      present={node}
      latest={node}
      remove={(shown) =>
        ask(
          client.DELETE('/api/v1/nodes/{name}', {
            params: { path: { name }, header: unchanged(shown) },
          }),
        )
      }
      done={`${name} is no part of the cluster any more`}
      onDone={() => navigate('/nodes')}
      onClose={onClose}
    >
      {(shown) => (
        <>
          <Stands node={shown} />
          <p>
            Nothing is on it. After this it is no part of the cluster, and its process can be ended.
          </p>
        </>
      )}
    </RemovalDialog>
  );
}
