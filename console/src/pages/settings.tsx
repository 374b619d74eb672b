import { Button, Switch, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ask, client } from '../api/client';
import { clusterQuery, sessionQuery, settingsQuery, useChange } from '../api/queries';
import type { Settings, SettingsChange } from '../api/types';
import { Failure, PageHead, Panel, Shown } from '../parts/basic';
import { Outdated, unchanged } from '../parts/outdated';
import { RoleButton } from '../parts/role';
import { say } from '../parts/say';
import { Link, useTitle } from '../router';
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
    label: 'Background work at least',
    means: "Bytes a second that a node does in the background however slow hosts' commands are.",
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

/** Whether two texts are one but for which spaces they have: a unit that is typed has another than one that is shown. */
function isSame(one: string, other: string): boolean {
  const plain = (text: string) => text.trim().replace(/\s+/g, ' ');
  return plain(one) === plain(other);
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

function Form({ settings: latest }: { settings: Settings }) {
  const [typed, setTyped] = useState<Partial<Record<Numeric, string>>>({});
  const [rebalance, setRebalance] = useState<boolean | null>(null);
  /** What one has begun to change: from then on it does not become another under one's hands. */
  const [shown, setShown] = useState<Settings | null>(null);
  const settings = shown ?? latest;
  const save = useChange((body: SettingsChange) =>
    ask(client.PATCH('/api/v1/settings', { params: { header: unchanged(settings) }, body })),
  );
  const begin = () => {
    setTyped({});
    setRebalance(null);
    setShown(null);
  };
  const change = changed(settings, typed, rebalance);
  const nothing = change !== null && Object.keys(change).length === 0;
  return (
    <Panel title="Repair, background work, scrubs">
      <form
        className="settings"
        onSubmit={(event) => {
          event.preventDefault();
          if (change === null || nothing) return;
          save.mutate(change, {
            onSuccess: () => {
              say('The settings are in effect');
              begin();
            },
          });
        }}
      >
        {FIELDS.map((field) => {
          const text = typed[field.key] ?? field.write(settings[field.key]);
          const fault =
            field.read(text) === null && text.trim() !== field.write(settings[field.key]);
          return (
            <TextInput
              key={field.key}
              label={field.label}
              description={field.means}
              value={text}
              autoComplete="off"
              error={fault ? `as in ${field.write(settings[field.key])}` : undefined}
              onChange={(event) => {
                setShown(settings);
                setTyped({ ...typed, [field.key]: event.currentTarget.value });
              }}
            />
          );
        })}
        <Switch
          label="Even out"
          description="Whether slices move by themselves to even out what nodes hold and lead."
          checked={rebalance ?? settings.rebalance}
          onChange={(event) => {
            setShown(settings);
            setRebalance(event.currentTarget.checked);
          }}
        />
        {save.error ? <Failure error={save.error} /> : null}
        <Outdated order={save} shown={settings} latest={latest} onShow={begin} />
        <div className="dialog-buttons">
          <Button
            variant="default"
            disabled={nothing}
            onClick={() => {
              begin();
              save.reset();
            }}
          >
            Undo
          </Button>
          <RoleButton
            takes="administrator"
            type="submit"
            disabled={change === null || nothing}
            loading={save.isPending}
          >
            Save
          </RoleButton>
        </div>
      </form>
    </Panel>
  );
}
