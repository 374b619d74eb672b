import { useQuery } from '@tanstack/react-query';
import { Unreached } from '../api/client';
import { clusterQuery, nodesQuery } from '../api/queries';
import { moment } from '../text/units';
import { Sign } from './basic';

/** Whether what is shown of the cluster is what was: the node that served the page does not answer, or cannot say any more. */
export function useIsLost(): boolean {
  return useQuery(clusterQuery).error !== null;
}

/**
 * Says so when the node that served the page does not answer any more, and how to go on.
 *
 * The list of nodes is what was known last: pages are not allowed to ask other nodes, so these are links.
 */
export function Lost({ path }: { path: string }) {
  const { error, dataUpdatedAt } = useQuery(clusterQuery);
  const nodes = useQuery(nodesQuery);
  if (!(error instanceof Unreached)) return null;
  const here = window.location.origin;
  const others = (nodes.data?.nodes ?? []).filter(
    (node) => node.state === 'up' && !sameOrigin(node.api, here),
  );
  return (
    <div className="lost" role="alert">
      <Sign tone="bad" size={20} />
      <div>
        <div className="lost-title">
          The node that served this page does not answer ({window.location.host})
        </div>
        <div>
          {dataUpdatedAt > 0
            ? `What stands below is what it said at ${moment(dataUpdatedAt)}, and may be different now. `
            : ''}
          {others.length > 0
            ? 'Every node serves this console; go on with '
            : 'It is tried again each second.'}
          {others.map((node, index) => (
            <span key={node.name}>
              {index > 0 ? (index === others.length - 1 ? ' or ' : ', ') : ''}
              <a href={node.api + path}>{node.name}</a>
            </span>
          ))}
          {others.length > 0 ? '.' : ''}
        </div>
      </div>
    </div>
  );
}

function sameOrigin(api: string, here: string): boolean {
  try {
    return new URL(api).origin === here;
  } catch {
    return false;
  }
}
