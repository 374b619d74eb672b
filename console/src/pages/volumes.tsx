import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { trafficQuery, volumesQuery } from '../api/queries';
import { recent } from '../api/recent';
import type { Health, VolumeSummary, VolumeTraffic } from '../api/types';
import {
  Bar,
  Empty,
  Explained,
  Failing,
  HealthMark,
  PageHead,
  Shown,
  Silent,
} from '../parts/basic';
import { RoleButton } from '../parts/role';
import { type Column, DataTable } from '../parts/table';
import { address, Link, navigate, useTitle } from '../router';
import { bytes, bytesPerSecond, count, latency, percent } from '../text/units';
import { COMMAND_SPAN, POLICIES, usedPerVolume } from '../text/words';

const WORST_FIRST: Record<Health, number> = { unavailable: 0, degraded: 1, healthy: 2 };

/** A volume, and what is done with it: null if nothing is, undefined if that is not known. */
type Row = VolumeSummary & { traffic: VolumeTraffic | null | undefined };

const NOT_KNOWN = <Explained tip="Not known at present.">–</Explained>;

const COLUMNS: Column<Row>[] = [
  {
    id: 'name',
    head: 'Name',
    by: (volume) => volume.name,
    cell: (volume) => (
      <Link to={address('volumes', volume.name)} className="strong-link">
        {volume.name}
      </Link>
    ),
  },
  {
    id: 'health',
    head: 'Health',
    tip: 'Whether it is served, with all its copies',
    by: (volume) => WORST_FIRST[volume.health],
    cell: (volume) => <HealthMark health={volume.health} />,
  },
  {
    id: 'policy',
    head: 'Policy',
    tip: 'How it is protected',
    by: (volume) => POLICIES[volume.policy].copies,
    cell: (volume) => (
      <Explained
        tip={`${POLICIES[volume.policy].title}. Survives: ${POLICIES[volume.policy].survives}`}
      >
        {volume.policy}
      </Explained>
    ),
  },
  {
    id: 'size',
    head: 'Size',
    tip: 'What hosts see',
    numeric: true,
    by: (volume) => volume.bytes,
    cell: (volume) => bytes(volume.bytes),
  },
  {
    id: 'used',
    head: 'Used',
    tip: 'Pages of 256 KiB that hold something that was written, each counted once; in the pool each copy of them counts',
    numeric: true,
    by: (volume) => volume.used_bytes ?? -1,
    cell: (volume) => {
      const part = usedPerVolume(volume);
      if (part === null) return <Explained tip="No node knows.">–</Explained>;
      const text = percent(volume.used_bytes ?? 0, volume.bytes);
      return (
        <span className="used">
          <span>{bytes(volume.used_bytes ?? 0)}</span>
          <Bar label={`Used of ${volume.name}: ${text}`} part={part} />
        </span>
      );
    },
  },
  {
    id: 'iops',
    head: 'IOPS',
    tip: 'Reads and writes of hosts that were done in a second, over the last five, at all nodes',
    numeric: true,
    by: ({ traffic }) => traffic?.all.per_second ?? (traffic === null ? 0 : -1),
    cell: ({ traffic }) => {
      if (traffic === undefined) return NOT_KNOWN;
      if (traffic === null) return <span className="dim">0</span>;
      const { reads, writes, all } = traffic;
      return (
        <Explained
          tip={`${count(reads.per_second)} reads and ${count(writes.per_second)} writes a second; ${bytesPerSecond(reads.bytes_per_second)} read, ${bytesPerSecond(writes.bytes_per_second)} written.`}
        >
          {count(all.per_second)}
        </Explained>
      );
    },
  },
  {
    id: 'throughput',
    head: 'Throughput',
    tip: 'Bytes that hosts read and wrote in a second, over the last five',
    numeric: true,
    spare: true,
    by: ({ traffic }) => traffic?.all.bytes_per_second ?? (traffic === null ? 0 : -1),
    cell: ({ traffic }) => {
      if (traffic === undefined) return NOT_KNOWN;
      if (traffic === null) return <span className="dim">0 B/s</span>;
      return bytesPerSecond(traffic.all.bytes_per_second);
    },
  },
  {
    id: 'p99',
    head: 'p99',
    tip: `What 99 of 100 reads and writes took at most, over the last five seconds. ${COMMAND_SPAN}`,
    numeric: true,
    by: ({ traffic }) => traffic?.all.latency?.p99_us ?? -1,
    cell: ({ traffic }) => {
      if (traffic === undefined) return NOT_KNOWN;
      const took = traffic?.all.latency;
      if (!took) return <span className="dim">–</span>;
      return (
        <Explained
          tip={`Mean ${latency(took.mean_us)}, median ${latency(took.p50_us)}, the longest ${latency(took.max_us)}.`}
        >
          {latency(took.p99_us)}
        </Explained>
      );
    },
  },
  {
    id: 'sessions',
    head: 'Sessions',
    tip: 'Sessions of initiators with its target, on all nodes that answer',
    numeric: true,
    by: (volume) => volume.sessions,
    cell: (volume) => volume.sessions,
  },
  {
    id: 'target',
    head: 'Target, LUN',
    tip: 'Under which name and number hosts find it',
    spare: true,
    by: (volume) => volume.target,
    cell: (volume) => (
      <span className="mono dim target" title={`${volume.target} ${volume.lun}`}>
        <span>{volume.target}</span> {volume.lun}
      </span>
    ),
  },
];

export function VolumesPage() {
  useTitle('Volumes');
  const query = useQuery(volumesQuery);
  const asked = useQuery(trafficQuery);
  const traffic = recent(asked);
  const done = new Map(traffic?.volumes.map((one) => [one.volume, one]));
  const create = (
    <RoleButton
      takes="operator"
      leftSection={<IconPlus size={15} />}
      onClick={() => navigate('/volumes/+new')}
    >
      Create volume
    </RoleButton>
  );
  return (
    <>
      <PageHead title="Volumes" actions={create} />
      <Shown query={query} what="the volumes">
        {({ volumes }) => (
          <>
            {/* What keeps all of it from being read is said once. */}
            {query.error ? null : <Failing error={asked.error} />}
            <div className="panel">
              {volumes.length > 0 ? <Silent nodes={traffic?.silent ?? []} /> : null}
              <DataTable
                label="Volumes"
                rows={volumes.map((volume) => ({
                  ...volume,
                  traffic: traffic ? (done.get(volume.name) ?? null) : undefined,
                }))}
                columns={COLUMNS}
                rowId={(volume) => volume.name}
                sortBy="name"
                search="volumes"
                empty={
                  <Empty title="There is no volume yet" action={create}>
                    A volume is a virtual disk. Hosts reach it over iSCSI through any node.
                  </Empty>
                }
              />
            </div>
          </>
        )}
      </Shown>
    </>
  );
}
