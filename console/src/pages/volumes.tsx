import { Button } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { volumesQuery } from '../api/queries';
import type { Health, VolumeSummary } from '../api/types';
import { Bar, Empty, HealthMark, PageHead, Shown } from '../parts/basic';
import { type Column, DataTable } from '../parts/table';
import { address, Link, navigate, useTitle } from '../router';
import { bytes, percent } from '../text/units';
import { POLICIES, usedPerVolume } from '../text/words';

const WORST_FIRST: Record<Health, number> = { unavailable: 0, degraded: 1, healthy: 2 };

const COLUMNS: Column<VolumeSummary>[] = [
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
      <span title={`Survives: ${POLICIES[volume.policy].survives}`}>
        {volume.policy} <span className="dim">{POLICIES[volume.policy].title.toLowerCase()}</span>
      </span>
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
    tip: 'Pages that have been written, once whatever the copies',
    numeric: true,
    by: (volume) => volume.used_bytes ?? -1,
    cell: (volume) => {
      const part = usedPerVolume(volume);
      if (part === null) return <span title="No node knows">–</span>;
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
      <span className="mono dim" title={volume.target}>
        {volume.target} {volume.lun}
      </span>
    ),
  },
];

export function VolumesPage() {
  useTitle('Volumes');
  const query = useQuery(volumesQuery);
  const create = (
    <Button leftSection={<IconPlus size={15} />} onClick={() => navigate('/volumes/+new')}>
      Create volume
    </Button>
  );
  return (
    <>
      <PageHead title="Volumes" actions={create} />
      <Shown query={query} what="the volumes">
        {({ volumes }) => (
          <div className="panel">
            <DataTable
              label="Volumes"
              rows={volumes}
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
        )}
      </Shown>
    </>
  );
}
