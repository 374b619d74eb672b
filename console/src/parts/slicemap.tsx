import { SegmentedControl } from '@mantine/core';
import { useState } from 'react';
import type { Slice } from '../api/types';
import { isWhole, nodesOf, type Part, partOf, partWords, slicesSentence } from '../text/slices';
import { bytes, bytesPerSecond, span } from '../text/units';
import { Empty, Explained, Sign } from './basic';
import { type Column, DataTable } from './table';

/** Slices in a row of the picture; more are in rows below. */
const PER_ROW = 32;
/** Slices that are drawn at most. Of a larger volume the table has all, and the picture those that lack something first. */
const DRAWN_MAX = 512;

const SLICE_BYTES = 4 * 1024 ** 3;

const LEGEND: { part: Part; word: string }[] = [
  { part: { role: 'primary' }, word: 'leads' },
  { part: { role: 'in-sync' }, word: 'in sync' },
  { part: { role: 'joining', done: 0.6 }, word: 'is being brought up to date' },
  { part: { role: 'absent' }, word: 'lacks something' },
  { part: { role: 'away' }, word: 'is away, nothing to copy' },
];

/** Who holds what, as a picture and as a table. */
export function SliceMap({ slices }: { slices: Slice[] }) {
  const [as, setAs] = useState('picture');
  if (slices.length === 0) return <Empty title="This volume has no slices" />;
  return (
    <>
      <div className="slices-head">
        <Explained tip="A slice has 4 GiB, or what is left at the end.">
          {slicesSentence(slices)}
        </Explained>
        <SegmentedControl
          size="xs"
          aria-label="Shown as"
          data={[
            { value: 'picture', label: 'Picture' },
            { value: 'table', label: 'Table' },
          ]}
          value={as}
          onChange={setAs}
        />
      </div>
      {as === 'picture' ? <Picture slices={slices} /> : <SliceTable slices={slices} />}
    </>
  );
}

function Picture({ slices }: { slices: Slice[] }) {
  const nodes = nodesOf(slices);
  const drawn =
    slices.length <= DRAWN_MAX
      ? slices
      : [...slices]
          .sort((a, b) => Number(isWhole(a)) - Number(isWhole(b)) || a.index - b.index)
          .slice(0, DRAWN_MAX);
  const rows: Slice[][] = [];
  for (let at = 0; at < drawn.length; at += PER_ROW) rows.push(drawn.slice(at, at + PER_ROW));
  return (
    <>
      {drawn.length < slices.length ? (
        <p className="note">
          <Explained tip="More would be too small to be seen.">
            {drawn.length} of {slices.length} slices
          </Explained>
          , those that lack something first. The table has all.
        </p>
      ) : null}
      <div className="slices" role="img" aria-label={slicesSentence(slices)}>
        {rows.map((row) => (
          <div key={row[0]?.index} className="slices-row">
            <div
              className="slices-line slices-numbers"
              title="Which slice of the volume, from 0 on"
            >
              <span />
              {row.map((slice) => (
                <span key={slice.index}>{slice.index}</span>
              ))}
            </div>
            {nodes.map((node) => (
              <div key={node} className="slices-line">
                <span className="slices-node">{node}</span>
                {row.map((slice) => (
                  <Cell
                    key={slice.index}
                    part={partOf(slice, node)}
                    title={`Slice ${slice.index}, epoch ${slice.epoch}: ${node} ${partWords(partOf(slice, node), slice, node)}`}
                  />
                ))}
              </div>
            ))}
            <div className="slices-line slices-epochs">
              <span className="slices-node">epoch</span>
              {row.map((slice) => (
                <span
                  key={slice.index}
                  title={`Slice ${slice.index}: epoch ${slice.epoch}${slice.served === false ? ', not served' : ''}`}
                >
                  {slice.served === false ? <Sign tone="bad" size={14} /> : slice.epoch}
                </span>
              ))}
            </div>
          </div>
        ))}
      </div>
      <ul className="legend">
        {LEGEND.map(({ part, word }) => (
          <li key={word}>
            <Cell part={part} /> {word}
          </li>
        ))}
      </ul>
    </>
  );
}

function Cell({ part, title }: { part: Part; title?: string }) {
  return (
    <span className={`cell cell-${part.role}`} title={title}>
      {part.role === 'joining' ? <i style={{ height: `${part.done * 100}%` }} /> : null}
    </span>
  );
}

/** Bytes that each absent copy lacks; as much as a slice has where nobody can tell. */
function lacking({ absent }: Slice): number[] {
  return (absent ?? []).map(({ bytes_lacking }) => bytes_lacking ?? SLICE_BYTES);
}

const COLUMNS: Column<Slice>[] = [
  {
    id: 'index',
    head: 'Slice',
    tip: 'Which slice of the volume, from 0 on: each is 4 GiB',
    numeric: true,
    by: (slice) => slice.index,
    cell: (slice) => slice.index,
  },
  {
    id: 'epoch',
    head: 'Epoch',
    tip: 'The number of its configuration; it rises when another node leads, or a copy comes or goes',
    numeric: true,
    by: (slice) => slice.epoch,
    cell: (slice) => slice.epoch,
  },
  {
    id: 'primary',
    head: 'Led by',
    tip: 'The node that orders its writes',
    by: (slice) => slice.primary,
    cell: (slice) =>
      slice.served === false ? <span className="tone-bad">nobody: not served</span> : slice.primary,
  },
  {
    id: 'in_sync',
    head: 'In sync',
    tip: 'The nodes that have everything',
    by: (slice) => slice.in_sync.length,
    cell: (slice) => slice.in_sync.join(', ') || '–',
  },
  {
    id: 'lacking',
    head: 'Lacking',
    tip: 'Nodes that are to have everything, and do not',
    // What is to be copied, and a copy that is away before none that is.
    by: (slice) =>
      [...slice.joining.map((one) => one.bytes_total - one.bytes_done), ...lacking(slice)].reduce(
        (sum, bytes) => sum + bytes + 1,
        0,
      ),
    cell: (slice) =>
      isWhole(slice)
        ? '–'
        : [
            ...slice.joining.map(
              (one) =>
                `${one.node}: ${bytes(one.bytes_done)} of ${bytes(one.bytes_total)} copied` +
                `${one.bytes_per_second ? ` at ${bytesPerSecond(one.bytes_per_second)}` : ''}` +
                `${one.seconds_left == null ? '' : `, ${span(one.seconds_left)} left`}`,
            ),
            ...(slice.absent ?? []).map(
              (one) => `${one.node} ${partWords(partOf(slice, one.node), slice, one.node)}`,
            ),
          ].join('; '),
  },
];

function SliceTable({ slices }: { slices: Slice[] }) {
  return (
    <DataTable
      label="Slices"
      rows={slices}
      columns={COLUMNS}
      rowId={(slice) => String(slice.index)}
      sortBy="index"
      empty={null}
    />
  );
}
