import { useQuery } from '@tanstack/react-query';
import { devicesQuery } from '../api/queries';
import type { Device, Node } from '../api/types';
import { address, Link } from '../router';
import { bytes, count, latency, moment, percent, plural } from '../text/units';
import {
  DEVICE_STATES,
  deviceWas,
  fillTip,
  LATENCY_TIP,
  NODE_USED_TIP,
  nodeState,
  TIER_TIPS,
  TIERS,
  WORK_TIP,
} from '../text/words';
import { Bar, Explained, fillTone, Standing } from './basic';

/** The nodes, a line each. */
export function NodeStrip({ nodes }: { nodes: Node[] }) {
  return (
    <ul className="strip">
      {nodes.map((node) => {
        const state = nodeState(node);
        return (
          <li key={node.name}>
            <Link to={address('nodes', node.name)} className="strip-name">
              {node.name}
            </Link>
            <Standing {...state} />
            {node.room ? (
              <>
                <Bar
                  label={`Fill of ${node.name}: ${percent(node.room.used_bytes, node.room.bytes)}`}
                  part={part(node)}
                  tone={fillTone(part(node))}
                />
                <Explained
                  className="strip-fill"
                  tip={`${bytes(node.room.used_bytes)} of the ${bytes(node.room.bytes)} on its devices are used.`}
                >
                  {percent(node.room.used_bytes, node.room.bytes)}
                </Explained>
              </>
            ) : (
              <span className="strip-unknown">room not known</span>
            )}
          </li>
        );
      })}
    </ul>
  );
}

function part(node: Node): number {
  return node.room && node.room.bytes > 0 ? node.room.used_bytes / node.room.bytes : 0;
}

/** Sites, the nodes on each, and how full they are. */
export function NodeMap({ nodes }: { nodes: Node[] }) {
  const sites = new Map<string, Node[]>();
  for (const node of nodes) {
    const site = node.site ?? '';
    sites.set(site, [...(sites.get(site) ?? []), node]);
  }
  const named = sites.size > 1 || !sites.has('');
  return (
    <div className="map">
      {[...sites].map(([site, there]) => (
        <section
          key={site}
          className={named ? 'site' : ''}
          aria-label={site ? `Site ${site}` : 'Map of the nodes'}
        >
          {named ? <h3>{site ? `Site ${site}` : 'No site said'}</h3> : null}
          <div className="map-nodes">
            {there.map((node) => (
              <NodeCard key={node.name} node={node} ask={nodes.length <= ASKED_MAX} />
            ))}
          </div>
        </section>
      ))}
    </div>
  );
}

/** Nodes of which each one's devices are asked for: of more, that would be too much of asking. */
const ASKED_MAX = 16;
const ASKED_EVERY_MS = 5_000;

export function NodeCard({ node, ask }: { node: Node; ask: boolean }) {
  const state = nodeState(node);
  const answers = node.answers !== false && ask;
  const query = useQuery({ ...devicesQuery(node.name, ASKED_EVERY_MS), enabled: answers });
  return (
    <div className={`node-card node-card-${state.tone}`}>
      <div className="node-card-head">
        {/* All of the card leads there, but for what explains itself. */}
        <Link to={address('nodes', node.name)} className="node-card-name">
          {node.name}
        </Link>
        <Standing {...state} />
      </div>
      {node.room ? (
        <>
          <Bar wide label={`Fill of ${node.name}`} part={part(node)} tone={fillTone(part(node))} />
          <div className="node-card-line">
            <Explained tip={NODE_USED_TIP}>{bytes(node.room.used_bytes)}</Explained>
            <Explained tip="What its devices can hold of pages; how full that is, beside it.">
              {percent(node.room.used_bytes, node.room.bytes)} of {bytes(node.room.bytes)}
            </Explained>
          </div>
        </>
      ) : (
        <div className="node-card-line">room not known</div>
      )}
      {ask && query.data ? <DeviceMinis devices={query.data.devices} isPast={!answers} /> : null}
      {answers ? null : (
        <div className="node-card-line">
          {!ask
            ? 'its devices are on its page'
            : query.data
              ? `devices as it told at ${moment(query.dataUpdatedAt)}`
              : 'devices not known while it is away'}
        </div>
      )}
      <div className="node-card-line">
        <Explained tip="Copies of slices that it holds.">
          {plural(node.replicas, 'replica')}
        </Explained>
        <Explained tip="Slices of which it is the primary: it takes their reads and writes.">
          leads {node.primaries}
        </Explained>
      </div>
      {node.work_per_second == null ? null : (
        <div className="node-card-line">
          <Explained tip={WORK_TIP}>work {count(node.work_per_second)}/s</Explained>
        </div>
      )}
      {node.failure_domain ? (
        <div className="node-card-line">
          <Explained tip="Nodes that say the same fail together: no two copies are there.">
            fails with domain {node.failure_domain}
          </Explained>
        </div>
      ) : null}
    </div>
  );
}

type MinisProps = { devices: Device[]; isPast: boolean };

/** Devices of a node in short. How full a single one is, the node's bar says. */
function DeviceMinis({ devices, isPast }: MinisProps) {
  const barred = devices.length > 1 || devices.some((device) => device.is_absent);
  return devices.map((device) => {
    const part = device.bytes > 0 ? device.used_bytes / device.bytes : 0;
    const state = isPast ? deviceWas(device) : DEVICE_STATES[device.state];
    return (
      <div key={device.number} className="device-mini">
        <div className="node-card-line">
          <span>
            <span className="mono" title={device.path}>
              {device.path.split('/').at(-1) || `device ${device.number}`}
            </span>{' '}
            <Explained tip={TIER_TIPS[device.tier]}>{TIERS[device.tier]}</Explained>
          </span>
          <span className="nowrap">
            {device.latency_p99_us == null || isPast ? null : (
              <Explained tip={LATENCY_TIP}>p99 {latency(device.latency_p99_us)}</Explained>
            )}{' '}
            <Explained
              tip={isPast ? state.tip : `${state.tip} ${fillTip(device)}`}
              className={`tone-${state.tone}`}
            >
              {state.word}
            </Explained>
          </span>
        </div>
        {barred ? (
          <Bar
            wide
            label={`Fill of ${device.path}: ${percent(device.used_bytes, device.bytes)}`}
            part={part}
            tone={fillTone(part)}
          />
        ) : null}
      </div>
    );
  });
}
