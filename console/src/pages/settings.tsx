import { useQuery } from '@tanstack/react-query';
import { ask, client } from '../api/client';
import { clusterQuery, sessionQuery, settingsQuery } from '../api/queries';
import type { Settings, SettingsChange } from '../api/types';
import { PageHead, Panel, Shown } from '../parts/basic';
import { SetForm } from '../parts/set-form';
import { Link, useTitle } from '../router';
import { isSame } from '../text/typed';
import { bytesPerSecond, parseBytes, parseSpan, span } from '../text/units';
import { RetentionPanel } from './settings-retention';

type Numeric = Exclude<keyof SettingsChange, 'rebalance'>;

type Field = {
  key: Numeric;
  label: string;
  means: string;
  write: (value: number) => string;
  read: (text: string) => number | null;
};

const spanOf = (seconds: number) => span(seconds);
const rate = (text: string) => parseBytes(text.trim().replace(/\/s$/i, ''));

const FIELDS: Field[] = [
  {
    key: 'repair_delay_seconds',
    label: 'Repair delay',
    means: 'After so long without a word from a node its replicas are rebuilt elsewhere.',
    write: spanOf,
    read: parseSpan,
  },
  {
    key: 'background_slowdown_percent',
    label: 'Slowdown by background work',
    means:
      "By how many percent, from 1 to 100, hosts' commands may become slower by what nodes do in the background.",
    write: (value) => `${value} %`,
    read: (text) => (/^\s*\d{1,3}\s*%?\s*$/.test(text) ? Number.parseInt(text, 10) : null),
  },
  {
    key: 'background_floor',
    label: 'Background work allowed at least',
    means:
      "Bytes a second that a node may do in the background however slow hosts' commands are. Slow disks reach less, and a piece of a page of 256 KiB counts for more than its bytes.",
    write: bytesPerSecond,
    read: rate,
  },
  {
    key: 'scrub_interval_seconds',
    label: 'Scrub interval',
    means:
      'A volume is scrubbed when so much time has passed since its last scrub began; never: only when somebody says so.',
    write: (value) => (value === 0 ? 'never' : spanOf(value)),
    read: (text) => (text.trim().toLowerCase() === 'never' ? 0 : parseSpan(text)),
  },
  {
    key: 'scrub_rate',
    label: 'Scrub rate at most',
    means: 'Bytes a second that a node scrubs at most, of what it leads.',
    write: bytesPerSecond,
    read: rate,
  },
];

/** What was typed, as a change of what there is; null if something of it is not understood. */
export function changed(
  now: Settings,
  typed: Partial<Record<Numeric, string>>,
  rebalance: boolean | null,
): SettingsChange | null {
  const change: SettingsChange = {};
  for (const field of FIELDS) {
    const text = typed[field.key];
    if (text === undefined || isSame(text, field.write(now[field.key]))) continue;
    const value = field.read(text);
    if (value === null) return null;
    if (value !== now[field.key]) change[field.key] = value;
  }
  if (rebalance !== null && rebalance !== now.rebalance) change.rebalance = rebalance;
  return change;
}

export function SettingsPage() {
  useTitle('Settings');
  const query = useQuery(settingsQuery);
  const cluster = useQuery(clusterQuery).data?.status.cluster;
  const isAdministrator = useQuery(sessionQuery).data?.role === 'administrator';
  return (
    <>
      <PageHead title="Settings" />
      <p className="page-lead">
        They hold for the whole cluster, and are in effect at once.
        {isAdministrator ? (
          <>
            {' '}
            Elsewhere are <Link to="/users">users and tokens</Link>, and, with when alarms are
            raised, <Link to="/alarms">mail and webhooks</Link>.
          </>
        ) : null}
      </p>
      <Shown query={query} what="the settings">
        {(settings) => <Form settings={settings} />}
      </Shown>
      <RetentionPanel />
      {cluster ? (
        <Panel title="Cluster">
          <dl className="facts">
            <dt>Id</dt>
            <dd className="mono">{cluster}</dd>
            <dt>Interface</dt>
            <dd>
              <a href="/api/v1/openapi.json">/api/v1/openapi.json</a> describes all that this
              console does, for programs.
            </dd>
            <dt>Licences</dt>
            <dd>
              <a href="/licences.txt">What the console is made of</a>
            </dd>
          </dl>
        </Panel>
      ) : null}
    </>
  );
}

function Form({ settings }: { settings: Settings }) {
  return (
    <Panel title="Repair, background work, scrubs">
      <SetForm
        latest={settings}
        fields={FIELDS.map(({ key, label, means, write, read }) => ({
          key,
          label,
          means,
          write: (now: Settings) => write(now[key]),
          fault: (text: string, now: Settings) =>
            read(text) === null ? `as in ${write(now[key])}` : undefined,
        }))}
        toggle={{
          label: 'Even out',
          means: 'Whether slices move by themselves to even out what nodes hold and lead.',
          of: ({ rebalance }) => rebalance,
        }}
        changed={changed}
        send={(body, header) => ask(client.PATCH('/api/v1/settings', { params: { header }, body }))}
        done="The settings are in effect"
        saves="Save"
      />
    </Panel>
  );
}
