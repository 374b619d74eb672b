import { Tabs } from '@mantine/core';
import { IconArrowsMaximize, IconChecks, IconTrash } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { clusterQuery, volumeQuery, volumesQuery } from '../api/queries';
import type { Volume } from '../api/types';
import { AttachRecipes } from '../parts/attach';
import { FindingDetails } from '../parts/attention';
import {
  Explained,
  Failing,
  Failure,
  HealthMark,
  PageHead,
  Panel,
  Sign,
  Tag,
  Waiting,
} from '../parts/basic';
import { HistoryCharts } from '../parts/chart';
import { useDialog } from '../parts/dialog';
import { Left } from '../parts/left';
import { Prose } from '../parts/prose';
import { RoleButton } from '../parts/role';
import { SliceMap } from '../parts/slicemap';
import { StallTable } from '../parts/stalls';
import { address, Link, navigate, useTitle } from '../router';
import { bytes, bytesPerSecond, percent, plural } from '../text/units';
import { POLICIES } from '../text/words';
import { AccessPanel } from './volume-access';
import { DeleteDialog, GrowDialog, ScrubDialog } from './volume-changes';
import { VolumePaths } from './volume-paths';
import { ScrubPanel } from './volume-scrub';

const PARTS = [
  ['load', 'Load'],
  ['copies', 'Copies'],
  ['access', 'Access'],
  ['paths', 'Paths'],
  ['attach', 'Attach'],
  ['stalls', 'Stalls'],
  ['scrub', 'Scrub'],
] as const;

export function VolumePage({ name, part }: { name: string; part: string }) {
  useTitle(`Volume ${name}`);
  const query = useQuery(volumeQuery(name));
  const { data: volume, error } = query;
  const [dialog, open, close] = useDialog<'grow' | 'scrub' | 'delete'>();
  const here = PARTS.some(([id]) => id === part) ? part : 'load';
  if (!volume) {
    return (
      <>
        <PageHead title={name} above={<Link to="/volumes">Volumes</Link>} />
        {error ? (
          <Failure error={error} retry={() => query.refetch()} />
        ) : (
          <Waiting what="the volume" />
        )}
      </>
    );
  }
  return (
    <>
      <PageHead
        title={name}
        above={<Link to="/volumes">Volumes</Link>}
        beside={<HealthMark health={volume.health} />}
        actions={
          <>
            <RoleButton
              takes="operator"
              variant="default"
              leftSection={<IconArrowsMaximize size={14} />}
              onClick={() => open('grow')}
            >
              Grow
            </RoleButton>
            <RoleButton
              takes="operator"
              variant="default"
              leftSection={<IconChecks size={14} />}
              unless={
                volume.scrub?.running ? 'It is being scrubbed: see how far under “Scrub”.' : null
              }
              onClick={() => open('scrub')}
            >
              {volume.scrub?.running ? 'Scrub under way' : 'Scrub'}
            </RoleButton>
            <RoleButton
              takes="operator"
              variant="default"
              className="danger"
              leftSection={<IconTrash size={14} />}
              onClick={() => open('delete')}
            >
              Delete
            </RoleButton>
          </>
        }
      />
      <Failing error={error} />
      <Facts volume={volume} />
      <Findings name={name} />
      <Tabs
        value={here}
        onChange={(to) => navigate(address('volumes', name, to ?? 'load'), { replace: true })}
        keepMounted={false}
      >
        <Tabs.List>
          {PARTS.map(([id, label]) => (
            <Tabs.Tab key={id} value={id}>
              {label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <div className="tab">
          <Tabs.Panel value="load">
            <HistoryCharts subject={{ of: 'volume', name }} />
          </Tabs.Panel>
          <Tabs.Panel value="copies">
            <Panel title="Who holds what">
              <SliceMap slices={volume.slices} />
              <Copied bytes_moved={volume.resync.bytes_moved} />
            </Panel>
          </Tabs.Panel>
          <Tabs.Panel value="access">
            <AccessPanel volume={volume} />
          </Tabs.Panel>
          <Tabs.Panel value="paths">
            <VolumePaths name={name} />
          </Tabs.Panel>
          <Tabs.Panel value="attach">
            <Panel title="Attach it to a host">
              <AttachRecipes name={name} />
            </Panel>
          </Tabs.Panel>
          <Tabs.Panel value="stalls">
            <div className="panel">
              <StallTable volume={name} />
            </div>
          </Tabs.Panel>
          <Tabs.Panel value="scrub">
            <ScrubPanel volume={volume} />
          </Tabs.Panel>
        </div>
      </Tabs>
      {dialog === 'grow' ? <GrowDialog volume={volume} onClose={close} /> : null}
      {dialog === 'scrub' ? <ScrubDialog name={name} onClose={close} /> : null}
      {dialog === 'delete' ? <DeleteDialog volume={volume} onClose={close} /> : null}
    </>
  );
}

export function Facts({ volume }: { volume: Volume }) {
  const summary = useQuery(volumesQuery).data?.volumes.find((one) => one.name === volume.name);
  const { work } = volume.resync;
  const words = POLICIES[volume.policy];
  return (
    <div className="fact-line">
      <Explained tip="What hosts see.">
        <b>{bytes(volume.bytes)}</b>
      </Explained>
      <Explained tip="Pages of 256 KiB that hold something that was written, each counted once. In the pool, and in what nodes and tiers use, each of its copies counts, and so does room that is set aside for writes under way.">
        {volume.used_bytes == null
          ? 'used: no node knows'
          : `${bytes(volume.used_bytes)} used (${percent(volume.used_bytes, volume.bytes)})`}
      </Explained>
      <Tag tip={`Survives: ${words.survives} ${words.goesOn}`}>
        {volume.policy}: {words.title.toLowerCase()}
      </Tag>
      {summary ? (
        <>
          <Explained tip="Sessions of initiators with its target, on all nodes that answer.">
            {plural(summary.sessions, 'session')}
          </Explained>
          <Explained className="dim" tip="Its target, and its number there.">
            <span className="mono">{summary.target}</span> LUN {summary.lun}
          </Explained>
        </>
      ) : null}
      {work && work.bytes > 0 ? (
        <Explained tip="What copies of it lack still, and how fast that becomes less.">
          {bytes(work.bytes)} to copy, {bytesPerSecond(work.bytes_per_second)}
          <Left seconds={work.seconds_left} />
        </Explained>
      ) : null}
    </div>
  );
}

/** What syncs have cost. It only ever grows, so it is not told beside what is left of the one under way. */
function Copied({ bytes_moved }: { bytes_moved: number }) {
  if (bytes_moved === 0) return null;
  return (
    <p className="note note-below">
      <Explained tip="Data that was sent to bring copies of it up to date, by all syncs and moves since it was made, as far as that is on record: a node that is lost may have sent more. Blocks of zeros cost nothing.">
        at least {bytes(bytes_moved)} copied since it was made
      </Explained>
    </p>
  );
}

/** What there is to know about this volume. */
function Findings({ name }: { name: string }) {
  const findings = useQuery(clusterQuery).data?.explanation.volumes.find(
    (one) => one.volume === name,
  )?.findings;
  if (!findings || findings.length === 0) return null;
  return (
    <ul className="attention attention-alone">
      {findings.map((finding) => (
        <li key={`${finding.kind} ${finding.what}`}>
          <Sign
            tone={finding.health === 'unavailable' ? 'bad' : finding.health ? 'warn' : 'calm'}
          />
          <div>
            <Prose text={finding.what} alone />
            {finding.indexes ? (
              <span className="dim">
                {' '}
                ({/^\d+$/.test(finding.indexes) ? 'slice' : 'slices'} {finding.indexes})
              </span>
            ) : null}
            <FindingDetails finding={finding} />
          </div>
        </li>
      ))}
    </ul>
  );
}
