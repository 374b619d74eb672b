import { useQuery } from '@tanstack/react-query';
import { settingsQuery } from '../api/queries';
import type { Volume } from '../api/types';
import { Bar, Empty, Explained, Panel, Sign } from '../parts/basic';
import { Left } from '../parts/left';
import { bytes, bytesPerSecond, moment, percent, plural, span } from '../text/units';

type Result = NonNullable<NonNullable<Volume['scrub']>['last']>;
type Findings = Result['findings'];

const ROUND_TIP = 'Rounds of a volume are counted from 1; each reads all copies.';
const READ_TIP = 'What this round has read, of all copies.';

/** What was found when all of it was read, and how far it is being read now. */
export function ScrubPanel({ volume }: { volume: Volume }) {
  const interval = useQuery(settingsQuery).data?.scrub_interval_seconds;
  const { running, last } = volume.scrub ?? {};
  const done = running ? running.slices_done / Math.max(1, volume.slices.length) : 0;
  return (
    <Panel title="Scrub">
      <p className="note">
        {interval === undefined ? null : interval === 0 ? (
          'It is scrubbed only when somebody says so.'
        ) : (
          <>
            It is scrubbed by itself every{' '}
            <Explained tip="From the beginning of one round to that of the next: a setting of the cluster.">
              {span(interval)}
            </Explained>
            .
          </>
        )}
      </p>
      {running ? (
        <>
          <h3>
            <Explained tip="When this round began.">
              Under way since {moment(running.began_seconds * 1000)}
            </Explained>
          </h3>
          <Bar
            wide
            label={`Scrub: ${percent(running.slices_done, volume.slices.length)}`}
            part={done}
          />
          <p>
            <Explained tip="Slices of which all copies have been read and compared.">
              {running.slices_done} of {volume.slices.length} slices
            </Explained>
            ,{' '}
            <Explained tip="What is to be read still of all copies, about, and how fast that becomes less.">
              {bytes(running.bytes_left ?? 0)} left
              {running.bytes_per_second ? ` at ${bytesPerSecond(running.bytes_per_second)}` : ''}
              <Left seconds={running.seconds_left} />
            </Explained>
            .
          </p>
          {isNothing(running.findings) ? null : <FindingList findings={running.findings} />}
        </>
      ) : null}
      {last && isNothing(last.findings) ? (
        running ? null : (
          <Unread last={last} />
        )
      ) : last ? (
        <>
          <h3>
            <Explained tip={ROUND_TIP}>
              Round {last.round}, ended {moment(last.ended_seconds * 1000)}, took{' '}
              {span(last.ended_seconds - last.began_seconds)}
            </Explained>
          </h3>
          <FindingList findings={last.findings} />
        </>
      ) : running ? null : (
        <Empty title="Not scrubbed yet" />
      )}
    </Panel>
  );
}

/** Nothing was read, and nothing was left out: that says nothing about any block. */
function isNothing(findings: Findings): boolean {
  return Object.values(findings).every((count) => count === 0);
}

/** A volume is scrubbed as soon as it is there, as a rule: nothing has been written to it by then. */
function Unread({ last }: { last: Result }) {
  return (
    <Empty title="There was nothing to read">
      <Explained tip={ROUND_TIP}>
        Round {last.round} ended at {moment(last.ended_seconds * 1000)}
      </Explained>
      , and found nothing written.
    </Empty>
  );
}

function FindingList({ findings }: { findings: Findings }) {
  const clean =
    findings.bad_blocks === 0 && findings.differing_blocks === 0 && findings.skipped_blocks === 0;
  if (clean) {
    return (
      <p className="standing">
        <Sign tone="good" />{' '}
        <Explained tip={READ_TIP}>
          {bytes(findings.bytes_read)} read: every block is sound, and the copies are the same.
        </Explained>
      </p>
    );
  }
  const rows: [string, number, string][] = [
    ['Bad', findings.bad_blocks, 'could not be read, or failed their checksum'],
    ['Differing', findings.differing_blocks, 'sound, and not what the other copies have'],
    ['Doubtful', findings.doubtful_blocks, 'of them nothing told for certain who is right'],
    ['Not put right', findings.unmended_blocks, 'no other copy has them'],
    ['Skipped', findings.skipped_blocks, 'changed all the time, or the copy could not be asked'],
  ];
  return (
    <dl className="facts">
      <dt>Read</dt>
      <dd>
        <Explained tip={READ_TIP}>{bytes(findings.bytes_read)}</Explained>, of all copies
      </dd>
      {rows.map(([word, many, what]) => (
        <div key={word} className="facts-row">
          <dt>{word}</dt>
          <dd>
            <Explained tip="Each is of one copy: what is so in two of them counts twice.">
              {plural(many, 'block')} of 4 KiB
            </Explained>{' '}
            <span className="dim">({what})</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}
