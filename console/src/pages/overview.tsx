import { useQuery } from '@tanstack/react-query';
import { Suspense } from 'react';
import { clusterQuery, historyQuery, nodesQuery, raisedQuery } from '../api/queries';
import { recent } from '../api/recent';
import type { Explanation, Flow, HistoryPoint, Status, TierRoom } from '../api/types';
import { Attention } from '../parts/attention';
import { Bar, Explained, Figure, fillTone, Panel, Shown, Sign, Waiting } from '../parts/basic';
import { later } from '../parts/later';
import { useSteady } from '../parts/left';
import { useIsLost } from '../parts/lost';
import { NodeStrip } from '../parts/nodemap';
import { Prose } from '../parts/prose';
import { UnderWay } from '../parts/tasks';
import { useTitle } from '../router';
import { untold } from '../text/attention';
import { present } from '../text/series';
import { bytes, bytesPerSecond, count, latency, percent, plural } from '../text/units';
import {
  attentionCount,
  COMMAND_SPAN,
  healthSentence,
  overProvisioning,
  TIER_TIPS,
  TIERS,
  untilProtected,
} from '../text/words';

/** What draws is large, and below the rest. */
const HistoryCharts = later(async () => (await import('../parts/chart')).HistoryCharts);

const CLUSTER = { of: 'cluster' } as const;
/** So much that needs attention takes no more room than capacity and nodes do, side by side. */
const LITTLE = 2;
/** Of which the newest step is the present; the charts begin with the same. */
const PRESENT_SECONDS = 300;

export function OverviewPage() {
  useTitle('Overview');
  const cluster = useQuery(clusterQuery);
  const nodes = useQuery(nodesQuery);
  const raised = useQuery(raisedQuery);
  const alarms = raised.data?.alarms;
  const untoldOf = (explanation: Explanation) => untold(alarms ?? [], explanation).length;
  return (
    <Shown query={cluster} what="how the cluster is">
      {({ status, explanation }) => {
        const little = attentionCount(explanation, status, untoldOf(explanation)) <= LITTLE;
        return (
          <>
            <Headline status={status} alarms={untoldOf(explanation)} />
            <div className={`columns ${little ? 'columns-calm' : ''}`}>
              <div className="columns-main">
                <Panel title="Needs attention">
                  <Attention
                    explanation={explanation}
                    status={status}
                    alarms={alarms}
                    unknown={raised.error}
                  />
                </Panel>
                {little ? null : <UnderWay />}
              </div>
              <div className="columns-side">
                <Capacity status={status} />
                <Panel title="Nodes">
                  <Shown query={nodes} what="the nodes">
                    {({ nodes }) => <NodeStrip nodes={nodes} />}
                  </Shown>
                </Panel>
              </div>
            </div>
            {little ? <UnderWay /> : null}
            <Suspense
              fallback={
                <Panel title="Load">
                  <Waiting what="the history" />
                </Panel>
              }
            >
              <HistoryCharts subject={CLUSTER} brief />
            </Suspense>
          </>
        );
      }}
    </Shown>
  );
}

/** The cluster in one sentence, and in figures of the present. */
export function Headline({ status, alarms }: { status: Status; alarms: number }) {
  const { tone, text } = healthSentence(status, alarms, useIsLost());
  const history = useQuery(historyQuery(CLUSTER, PRESENT_SECONDS));
  const point = present(recent(history));
  const left = useSteady(status.protection?.work.seconds_left);
  const until = status.protection ? untilProtected(status.protection, left) : null;
  return (
    <div className={`headline headline-${tone}`}>
      <h1>
        <Sign tone={tone} size={24} />
        <span>{text}</span>
      </h1>
      {until && until.waits.length > 0 ? (
        <p className="headline-waits">
          Waits for <Prose text={until.waits.join('; and for ')} />.
        </p>
      ) : null}
      <div className="figures">
        {until ? (
          <Figure
            name={until.name}
            value={until.text}
            tone={until.tone}
            tip="When every volume has all its copies, on nodes that answer."
            note={protectionNote(status.protection)}
          />
        ) : null}
        <Figure
          name="Volumes"
          value={status.volumes.total}
          tip="Volumes of the cluster."
          note={parts([
            [status.volumes.healthy, 'healthy'],
            [status.volumes.degraded, 'degraded'],
            [status.volumes.unavailable, 'unavailable'],
          ])}
        />
        <Figure
          name="Nodes up"
          value={`${status.nodes.up} of ${status.nodes.total}`}
          tone={status.nodes.up < status.nodes.total ? 'warn' : undefined}
          tip="Nodes that answer, have their devices open, and follow the metadata."
          note={parts([
            [status.nodes.not_ready ?? 0, 'not ready'],
            [status.nodes.in_maintenance ?? 0, 'in maintenance'],
            [status.nodes.draining ?? 0, 'draining or drained'],
          ])}
        />
        <Now point={point} kept={history.data !== null} />
        {status.metadata_members ? (
          <Figure
            name="Metadata"
            value={`${status.metadata_members.up} of ${status.metadata_members.total}`}
            tone={status.metadata_members.up < status.metadata_members.total ? 'warn' : undefined}
            tip="Members of etcd that answer; more than half of them are needed for any change."
            note="members of etcd up"
          />
        ) : null}
      </div>
    </div>
  );
}

/** What is left, in short. */
function protectionNote(protection: Status['protection']): string {
  if (!protection || protection.protected) return 'all copies are in place';
  const lacking = `${plural(protection.slices, 'slice')} ${protection.slices === 1 ? 'lacks' : 'lack'} copies`;
  const { bytes: left, bytes_per_second: rate } = protection.work;
  if (left === 0) return lacking;
  return rate > 0
    ? `${bytes(left)} left at ${bytesPerSecond(rate)}`
    : `${lacking}; ${bytes(left)} to copy`;
}

/** What hosts do at present. */
function Now({ point, kept }: { point: HistoryPoint | null; kept: boolean }) {
  if (!kept) return null;
  const total = point ? point.reads.per_second + point.writes.per_second : null;
  const rate = point ? point.reads.bytes_per_second + point.writes.bytes_per_second : null;
  return (
    <>
      <Figure
        name="IOPS"
        value={total === null ? '–' : count(total)}
        tip="Reads and writes of hosts that were done in the last second, on all nodes."
        note={
          point
            ? `${count(point.reads.per_second)} reads, ${count(point.writes.per_second)} writes`
            : null
        }
      />
      <Figure
        name="Throughput"
        value={rate === null ? '–' : bytesPerSecond(rate)}
        tip="Bytes that hosts read and wrote in the last second."
        note={
          point
            ? `${bytesPerSecond(point.reads.bytes_per_second)} read, ${bytesPerSecond(point.writes.bytes_per_second)} written`
            : null
        }
      />
      <Took what="read" flow={point?.reads} />
      <Took what="write" flow={point?.writes} />
    </>
  );
}

/** How long commands of one kind take at present. */
export function Took({ what, flow }: { what: 'read' | 'write'; flow: Flow | undefined }) {
  const took = flow?.latency;
  return (
    <Figure
      name={what === 'read' ? 'Read latency' : 'Write latency'}
      value={took ? latency(took.p50_us) : '–'}
      tip={`How long a ${what} takes: the median of the last second, and what 99 of 100 took at most (p99). ${COMMAND_SPAN}`}
      note={
        took ? `median; p99 ${latency(took.p99_us)}` : flow ? `no ${what} in the last second` : null
      }
    />
  );
}

export function Capacity({ status }: { status: Status }) {
  const { pool } = status;
  const part = pool.bytes > 0 ? pool.used_bytes / pool.bytes : 0;
  const over = overProvisioning(status);
  const tone = fillTone(part);
  return (
    <Panel title="Capacity">
      <div className="capacity-line">
        <Explained tip="Pages that are taken, or promised to writes under way, on all nodes that take data. Each copy counts, so this is more than what the volumes say of themselves.">
          <b>{bytes(pool.used_bytes)}</b> used
        </Explained>
        <Explained tip="The part of the pool that is used, and the pool: the room on all nodes that answer, but for those that are being drained.">
          {percent(pool.used_bytes, pool.bytes)} of {bytes(pool.bytes)}
        </Explained>
      </div>
      <Bar
        wide
        label={`Capacity used: ${percent(pool.used_bytes, pool.bytes)}`}
        part={part}
        tone={tone}
      />
      <div className="capacity-line">
        <Explained tip="What the volumes would fill if every block of them were written, with all copies. More than the capacity is allowed; then room has to be watched.">
          <b>{bytes(status.promised_bytes)}</b> promised
        </Explained>
        <Explained
          tip="What is promised, beside the pool: above 1 × hosts cannot fill all volumes, unless devices or nodes are added."
          className={over !== null && over > 1 ? 'tone-warn' : ''}
        >
          {over === null
            ? 'no capacity'
            : over > 1
              ? `over-provisioned ${over.toFixed(over < 9.95 ? 2 : 0)} ×`
              : `${percent(status.promised_bytes, pool.bytes)} of it`}
        </Explained>
      </div>
      <Tiers tiers={status.tiers ?? []} />
    </Panel>
  );
}

/** The same by classes of devices, a line each. */
function Tiers({ tiers }: { tiers: TierRoom[] }) {
  if (tiers.length === 0) return null;
  return (
    <ul className="strip tiers" aria-label="Capacity by tier">
      {tiers.map(({ tier, devices, room }) => {
        const part = room.bytes > 0 ? room.used_bytes / room.bytes : 0;
        const text = percent(room.used_bytes, room.bytes);
        return (
          <li key={tier}>
            <span>
              <Explained
                tip={`${TIER_TIPS[tier]} ${plural(devices, 'device')} of it ${devices === 1 ? 'takes' : 'take'} data. While hosts write, it may differ from what stands above: what is set aside for writes is on no device yet, and a page that is written anew takes two places for a moment.`}
                className="strip-name"
              >
                {TIERS[tier]} <span className="dim">of {bytes(room.bytes)}</span>
              </Explained>
            </span>
            <Bar label={`Fill of ${TIERS[tier]}: ${text}`} part={part} tone={fillTone(part)} />
            <Explained
              className="strip-fill"
              tip={`${bytes(room.used_bytes)} of ${bytes(room.bytes)} of this class are used, on all nodes that take data.`}
            >
              {text}
            </Explained>
          </li>
        );
      })}
    </ul>
  );
}

/** Counts that are not zero, in words. */
function parts(counts: [number, string][]): string {
  return counts
    .filter(([many]) => many > 0)
    .map(([many, what]) => `${many} ${what}`)
    .join(', ');
}
