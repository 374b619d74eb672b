import { SegmentedControl } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { STALLS_LIMIT, stallsQuery } from '../api/queries';
import type { Stall } from '../api/types';
import { address, Link } from '../router';
import { toldOnce } from '../text/stalls';
import { milliseconds, moment } from '../text/units';
import { STALL_CAUSES } from '../text/words';
import { Empty, Explained, More, Shown, Silent } from './basic';
import { type Column, DataTable } from './table';

const SPANS = [
  { value: '3600000', label: 'Last hour' },
  { value: '86400000', label: 'Last day' },
  { value: 'all', label: 'All' },
];

const COLUMNS: Column<Stall>[] = [
  {
    id: 'began',
    head: 'Began',
    tip: 'By the clock of the node whose portal it was',
    by: (stall) => (stall.lasting ? Number.MAX_SAFE_INTEGER : stall.began_ms),
    numeric: true,
    cell: (stall) => moment(stall.began_ms),
  },
  {
    id: 'length',
    head: 'Length',
    tip: 'How long commands waited, and none was done',
    numeric: true,
    by: (stall) => stall.length_ms,
    cell: (stall) => (
      <span className={stall.length_ms > 1000 ? 'tone-warn' : ''}>
        {milliseconds(stall.length_ms)}
        {stall.lasting ? ' and lasts' : ''}
      </span>
    ),
  },
  {
    id: 'volume',
    head: 'Volume',
    by: (stall) => stall.volume,
    cell: (stall) => <Link to={address('volumes', stall.volume, 'stalls')}>{stall.volume}</Link>,
  },
  {
    id: 'portal',
    head: 'Portal',
    tip: 'The node whose portal it was',
    by: (stall) => stall.portal,
    cell: (stall) => stall.portal,
  },
  {
    id: 'cause',
    head: 'Cause',
    by: (stall) => STALL_CAUSES[stall.cause].word,
    cell: (stall) => (
      <Explained tip={STALL_CAUSES[stall.cause].tip} className="nowrap">
        {STALL_CAUSES[stall.cause].word}
        {stall.node ? `: ${stall.node}` : ''}
      </Explained>
    ),
  },
  {
    id: 'who',
    head: 'Whose commands',
    tip: 'Those of one host, or of everybody who uses the volume there; where that was one host, it is told once',
    by: (stall) => stall.initiator ?? '',
    spare: true,
    cell: (stall) =>
      stall.initiator ? <span className="mono">{stall.initiator}</span> : 'everybody’s there',
  },
  {
    id: 'waiting',
    head: 'Waiting',
    tip: 'Commands that waited, at most',
    numeric: true,
    by: (stall) => stall.waiting_max,
    cell: (stall) => stall.waiting_max,
  },
  {
    id: 'end',
    head: 'End',
    tip: 'Whether it ended because a command was done',
    by: (stall) => (stall.lasting ? 0 : stall.served ? 2 : 1),
    cell: (stall) => (stall.lasting ? 'lasts' : stall.served ? 'served' : 'given up, or refused'),
  },
];

/** The stall ledger, of one volume or of all. */
export function StallTable({ volume = null }: { volume?: string | null }) {
  const [since, setSince] = useState('all');
  const query = useQuery(stallsQuery(volume, since === 'all' ? null : Number(since)));
  return (
    <Shown query={query} what="the stalls">
      {({ stalls, silent, next }) => (
        <>
          <Silent nodes={silent} />
          <More
            next={next}
            shown={STALLS_LIMIT}
            command={`holdfast stalls ${volume === null ? '' : `${volume} `}--initiators --limit 1000`}
          />
          <DataTable
            label="Stalls"
            rows={toldOnce(stalls)}
            columns={volume === null ? COLUMNS : COLUMNS.filter((column) => column.id !== 'volume')}
            rowId={(stall) =>
              `${stall.portal} ${stall.volume} ${stall.began_ms} ${stall.initiator ?? ''}`
            }
            sortBy="began"
            descending
            tools={
              <SegmentedControl
                size="xs"
                aria-label="Since when"
                data={SPANS}
                value={since}
                onChange={setSince}
              />
            }
            empty={
              <Empty title="No stalls">
                A stall is a time of 100 ms or more in which commands waited at a portal and none
                was done.
              </Empty>
            }
          />
        </>
      )}
    </Shown>
  );
}
