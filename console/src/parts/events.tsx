import { Button, NativeSelect, SegmentedControl, TextInput } from '@mantine/core';
import { IconSearch } from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { memo, useEffect, useRef, useState } from 'react';
import { again } from '../api/again';
import { ask, client } from '../api/client';
import { alarmKindsQuery, eventsQuery } from '../api/queries';
import type { AlarmKind, Event, EventList } from '../api/types';
import { EVENT_KINDS, eventText, eventTone, kindWords } from '../text/event-kinds';
import {
  aboutWhat,
  alone,
  hasRoom,
  KNOWN_MAX,
  PIECE_MAX,
  shownEvents,
  withNewest,
  withOlder,
} from '../text/events';
import { moment } from '../text/units';
import { About, useGone } from './about';
import { Empty, Explained, Failure, Panel, Shown, Sign, Silent } from './basic';
import { Prose } from './prose';

/** Events of the stream that are kept until the log has them: more than one look of a node tells. */
const LIVE_MAX = 500;
/** After a refusal: too many listen, or nobody is known any more. */
const AGAIN_MS = 5_000;

type Severity = Event['severity'];
const RANKS: Severity[] = ['info', 'warning', 'error'];

const SEVERITIES = [
  { value: 'info', label: 'All' },
  { value: 'warning', label: 'Warnings and critical' },
  { value: 'error', label: 'Critical' },
];

/** What says how the stream goes is not shown, and who steers is told by the log only. */
const UNHEARD: Event['kind'][] = ['began', 'gap', 'steering', 'other'];
/** Each kind is an event of its own in the stream: one that is not listened for is not heard. */
const HEARD = (Object.keys(EVENT_KINDS) as Event['kind'][]).filter(
  (kind) => !UNHEARD.includes(kind),
);

/** What can be chosen of it: what says how the stream goes is in no log. */
const KINDS = [
  { value: '', label: 'All kinds' },
  ...(Object.keys(EVENT_KINDS) as Event['kind'][])
    .filter((kind) => kind !== 'began' && kind !== 'other')
    .map((kind) => ({ value: kind, label: EVENT_KINDS[kind].word }))
    .sort((one, other) => one.label.localeCompare(other.label, 'en')),
];

/** What changes at this moment, the newest first; and whether the node tells nothing now. */
function useLive(): [Event[], boolean] {
  const [events, setEvents] = useState<Event[]>([]);
  const [cut, setCut] = useState(false);
  const queries = useQueryClient();
  useEffect(() => {
    let source: EventSource;
    let later = 0;
    // What is under way is not broken off: a log that is slow would never be read.
    const reading = again(() => {
      if (queries.isFetching({ queryKey: ['events'] }) > 0) return false;
      queries.invalidateQueries({ queryKey: ['events'] });
      return true;
    });
    const listen = () => {
      // It comes back by itself with what was missed, unless it was refused.
      source = new EventSource('/api/v1/events');
      source.addEventListener('open', () => setCut(false));
      source.addEventListener('error', () => {
        setCut(true);
        if (source.readyState === EventSource.CLOSED) later = window.setTimeout(listen, AGAIN_MS);
      });
      for (const kind of HEARD) source.addEventListener(kind, take);
      // What changed until it began, or was missed, is told by the log only.
      for (const kind of ['began', 'gap']) source.addEventListener(kind, reading.told);
    };
    const take = ({ data }: MessageEvent<string>) => {
      const event = JSON.parse(data) as Event;
      setEvents((before) => [event, ...before].slice(0, LIVE_MAX));
      reading.told();
    };
    listen();
    return () => {
      window.clearTimeout(later);
      reading.end();
      source.close();
    };
  }, [queries]);
  return [events, cut];
}

/** What happened, the newest first, and what changes while one looks. */
export function Events() {
  const [severity, setSeverity] = useState<Severity>('info');
  const [kind, setKind] = useState<Event['kind'] | ''>('');
  const [about, setAbout] = useState('');
  const [live, cut] = useLive();
  const query = useQuery(eventsQuery(severity, kind));
  return (
    <Panel
      title="What happened"
      aside={
        <>
          <TextInput
            size="xs"
            aria-label="About which node or volume"
            placeholder="Node or volume"
            leftSection={<IconSearch size={14} aria-hidden />}
            value={about}
            onChange={(event) => setAbout(event.currentTarget.value)}
          />
          <NativeSelect
            size="xs"
            aria-label="Of which kind"
            data={KINDS}
            value={kind}
            onChange={(event) => setKind(event.currentTarget.value as Event['kind'] | '')}
          />
          <SegmentedControl
            size="xs"
            aria-label="How much it matters"
            data={SEVERITIES}
            value={severity}
            onChange={(value) => setSeverity(value as Severity)}
          />
        </>
      }
    >
      {cut ? (
        <p className="dim">
          This node does not tell what changes at the moment; it is asked again. The log is read all
          the same.
        </p>
      ) : null}
      <Shown query={query} what="the log of events">
        {(newest) => (
          <Log
            key={`${severity} ${kind}`}
            severity={severity}
            kind={kind}
            about={about}
            newest={newest}
            live={live}
          />
        )}
      </Shown>
    </Panel>
  );
}

/** How long news are gathered before they are spoken: much happens in the same moment. */
const NEWS_MS = 1_000;

/**
 * What has come since one looks, for whoever hears the page: one by its words, more as a count. What is older is read, not spoken, also
 * where it is shown only now, because something else was chosen until then.
 */
function useNews(
  live: Event[],
  isWanted: (event: Event) => boolean,
  kinds: AlarmKind[] | undefined,
): string {
  const [said, setSaid] = useState('');
  const [told, setTold] = useState(() => new Set(live.map(({ id }) => id)));
  const fresh = live.filter(({ id }) => !told.has(id));
  const latest = useRef({ fresh, live, isWanted, kinds });
  latest.current = { fresh, live, isWanted, kinds };
  const isNew = fresh.length > 0;
  useEffect(() => {
    if (!isNew) return;
    const timer = setTimeout(() => {
      const { fresh, live, isWanted, kinds } = latest.current;
      // Those that the stream has forgotten do not come again.
      setTold(new Set(live.map(({ id }) => id)));
      const news = fresh.filter(isWanted);
      const [event] = news;
      if (event === undefined) return;
      setSaid(
        news.length === 1
          ? `${kindWords(event.kind).word}, ${event.subject}: ${eventText(event, kinds)}`
          : `${news.length} new events`,
      );
    }, NEWS_MS);
    return () => clearTimeout(timer);
  }, [isNew]);
  return said;
}

/** A piece that is older than what is known: what it was asked for with, and why it has not come. */
type Older = { after: string; error: unknown };

type LogProps = {
  severity: Severity;
  /** None for all kinds. */
  kind: Event['kind'] | '';
  /** What is shown of what is known: the interface does not choose by what events are about. */
  about: string;
  newest: EventList;
  live: Event[];
};

function Log({ severity, kind, about, newest, live }: LogProps) {
  const [known, setKnown] = useState(() => alone(newest));
  const [older, setOlder] = useState<Older | null>(null);
  useEffect(() => setKnown((before) => withNewest(before, newest)), [newest]);
  const more = async (after: string) => {
    setOlder({ after, error: null });
    const over = (error: unknown) =>
      setOlder((is) => (is?.after !== after ? is : error === null ? null : { after, error }));
    try {
      const query = { severity, after, limit: PIECE_MAX, ...(kind === '' ? {} : { kind }) };
      const piece = await ask(client.GET('/api/v1/events/log', { params: { query } }));
      setKnown((before) => withOlder(before, after, piece));
      over(null);
    } catch (error) {
      over(error);
    }
  };
  // What was asked for before the list was begun anew, or cut, is of no use any more.
  const asked = older !== null && older.after === known.next ? older : null;
  const isChosenKind = (one: Event) =>
    RANKS.indexOf(one.severity) >= RANKS.indexOf(severity) && (kind === '' || one.kind === kind);
  const all = shownEvents(live.filter(isChosenKind), known.events, newest.looked_ms ?? 0);
  const isMeant = aboutWhat(all, about);
  const events = all.filter(isMeant);
  const isChosen = kind !== '' || about.trim() !== '';
  const weighed = severity === 'info' ? 'Nothing yet' : 'Nothing of that weight';
  const kinds = useQuery(alarmKindsQuery).data?.kinds;
  const isGone = useGone();
  const news = useNews(live, (one) => isChosenKind(one) && isMeant(one), kinds);
  return (
    <>
      <p className="unseen" role="status">
        {news}
      </p>
      <Silent nodes={[...new Set([...newest.silent, ...known.silent])].sort()} />
      {events.length === 0 ? (
        <Empty title={isChosen ? 'Nothing like that' : weighed}>
          Health, nodes, devices, syncs, volumes, settings and alarms: the node that steers the
          cluster puts down what changes, also while nobody looks.
        </Empty>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a long list is scrolled by keyboard, too
        <ul className="events" aria-label="Events" tabIndex={0}>
          {events.map((event) => (
            <Row key={event.id} event={event} isGone={isGone(event.subject)} kinds={kinds} />
          ))}
        </ul>
      )}
      {about.trim() !== '' && known.next !== null ? (
        <p className="dim">
          {events.length} of the newest {all.length} events are about that; older ones are looked
          through when they are shown.
        </p>
      ) : null}
      {asked?.error ? <Failure error={asked.error} /> : null}
      {known.next === null ? null : hasRoom(known) ? (
        <Button
          variant="default"
          size="xs"
          mt="xs"
          loading={asked !== null && asked.error === null}
          onClick={() => more(known.next ?? '')}
        >
          Show older ones
        </Button>
      ) : (
        <p className="dim">
          No more than {KNOWN_MAX.toLocaleString('en')} are shown; <code>holdfast events</code>{' '}
          tells what is older.
        </p>
      )}
    </>
  );
}

type RowProps = {
  event: Event;
  /** What it is about is not there any more. */
  isGone: boolean;
  kinds?: AlarmKind[];
};

/** What has not changed is not drawn again: there may be thousands. */
const Row = memo(function Row({ event, isGone, kinds }: RowProps) {
  const before = event.not_before_ms;
  return (
    <li>
      <Sign tone={eventTone(event)} />
      <span className="unseen">{event.severity}</span>
      {before == null ? (
        <span className="dim">{moment(event.at_ms)}</span>
      ) : (
        <Explained
          className="dim"
          tip={`It was seen to be so at this time. Last seen otherwise at ${moment(before)}: in between nobody looked.`}
        >
          {moment(event.at_ms)}, or before
        </Explained>
      )}
      <span className={`event-kind tone-${eventTone(event)}`}>{kindWords(event.kind).word}</span>
      <strong>
        <About subject={event.subject} isGone={isGone || event.kind === 'volume-deleted'} />
      </strong>
      <span>
        <Prose text={eventText(event, kinds)} />
      </span>
    </li>
  );
});
