import { useEffect, useState } from 'react';
import type { Event } from '../api/types';
import { moment } from '../text/units';
import { Empty, Panel, Sign } from './basic';

/** Events that are shown: what happened before is told by nobody. */
const SHOWN = 100;
/** After a refusal: too many listen, or nobody is known any more. */
const AGAIN_MS = 5_000;

const TONES = { error: 'bad', warning: 'warn', info: 'calm' } as const;

/** What changes at this moment, the newest first. */
export function Events() {
  const [events, setEvents] = useState<Event[]>([]);
  const [cut, setCut] = useState(false);
  useEffect(() => {
    let source: EventSource;
    let again = 0;
    const listen = () => {
      // It comes back by itself with what was missed, unless it was refused.
      source = new EventSource('/api/v1/events');
      source.addEventListener('open', () => setCut(false));
      source.addEventListener('error', () => {
        setCut(true);
        if (source.readyState === EventSource.CLOSED) again = window.setTimeout(listen, AGAIN_MS);
      });
      for (const kind of KINDS) source.addEventListener(kind, take);
    };
    const take = ({ data }: MessageEvent<string>) => {
      const event = JSON.parse(data) as Event;
      setEvents((before) => [event, ...before].slice(0, SHOWN));
    };
    listen();
    return () => {
      window.clearTimeout(again);
      source.close();
    };
  }, []);
  return (
    <Panel title="What changes now">
      {cut ? (
        <p className="dim">This node tells nothing at the moment; it is asked again.</p>
      ) : null}
      {events.length === 0 ? (
        <Empty title="Nothing yet">
          Health, nodes, devices, syncs, volumes, settings and alarms, as they change while you
          look.
        </Empty>
      ) : (
        <ul className="events" aria-live="polite">
          {events.map((event) => (
            <li key={event.id}>
              <Sign tone={TONES[event.severity]} />
              <span className="unseen">{event.severity}</span>
              <span className="dim">{moment(event.at_ms)}</span>
              <strong>{event.subject}</strong>
              <span>{event.detail}</span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

/** Each kind is an event of its own in the stream. */
const KINDS = [
  'gap',
  'cluster-health',
  'volume-health',
  'volume-created',
  'volume-grown',
  'volume-access',
  'volume-deleted',
  'node-lost',
  'node-back',
  'node-standing',
  'device-lost',
  'device-state',
  'sync-began',
  'sync-ended',
  'settings',
  'alert-raised',
  'alert-cleared',
  'alarm-raised',
  'alarm-acknowledged',
  'alarm-cleared',
];
