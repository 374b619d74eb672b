import { Button, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ask, client } from '../api/client';
import { alarmKindsQuery, alarmsQuery, sessionQuery, useChange } from '../api/queries';
import type { Alarm, AlarmKind, AlarmKindChange } from '../api/types';
import { AboutPast } from '../parts/about';
import { Empty, Explained, PageHead, Panel, Shown, Sign, Standing } from '../parts/basic';
import { Dialog, Tick, useDialog } from '../parts/dialog';
import { Events } from '../parts/events';
import { Outdated, unchanged } from '../parts/outdated';
import { Prose } from '../parts/prose';
import { say } from '../parts/say';
import { type Column, DataTable } from '../parts/table';
import { useTitle } from '../router';
import { clearOf, isWell, limit, raisedOf, readLimit, seenOf } from '../text/alarms';
import { moment, parseSpan, span } from '../text/units';
import { Receivers } from './receivers';

function What({ alarm }: { alarm: Alarm }) {
  const well = isWell(alarm);
  return (
    <details className="alarm">
      <summary>
        <Sign tone={well ? 'good' : alarm.severity === 'critical' ? 'bad' : 'warn'} />{' '}
        <span className="unseen">{alarm.severity}: </span>
        {alarm.title}
        {well ? ' (well again)' : ''}
      </summary>
      <p>
        <Prose text={seenOf(alarm)} alone />.
      </p>
      <p>
        <Prose text={alarm.meaning} />
      </p>
      <p>
        <strong>What to do:</strong> <Prose text={alarm.action} />
      </p>
    </details>
  );
}

const WHAT: Column<Alarm> = {
  id: 'what',
  head: 'Alarm',
  tip: 'Open one to see what it means, and what to do',
  by: (one) => `${one.severity} ${one.title}`,
  cell: (one) => <What alarm={one} />,
};

const ABOUT: Column<Alarm> = {
  id: 'about',
  head: 'About',
  by: (one) => one.subject,
  cell: (one) => <AboutPast subject={one.subject} />,
};

const SINCE: Column<Alarm> = {
  id: 'since',
  head: 'Since',
  tip: 'Since when that is so; the alarm was raised when it had been so for long enough',
  by: (one) => one.raised_ms,
  cell: (one) => moment(one.raised_ms),
};

const OVER: Column<Alarm>[] = [
  WHAT,
  ABOUT,
  { ...SINCE, spare: true },
  {
    id: 'over',
    head: 'Over',
    tip: 'When it was over',
    by: (one) => one.cleared_ms ?? 0,
    cell: (one) => moment(one.cleared_ms ?? 0),
  },
];

function columns(note: ((alarm: Alarm) => void) | null): Column<Alarm>[] {
  return [
    WHAT,
    ABOUT,
    SINCE,
    {
      id: 'known',
      head: 'Known to',
      tip: 'Who has taken note of it',
      by: (one) => one.acknowledged?.by ?? '',
      cell: (one) =>
        one.acknowledged ? (
          <Explained tip={`Since ${moment(one.acknowledged.at_ms)}.`}>
            {one.acknowledged.by}
            {one.acknowledged.note ? `: ${one.acknowledged.note}` : ''}
          </Explained>
        ) : note ? (
          <Button
            variant="default"
            size="compact-xs"
            aria-label={`Take note of ${one.title}, ${one.subject}`}
            onClick={() => note(one)}
          >
            Take note
          </Button>
        ) : (
          <span className="dim">nobody</span>
        ),
    },
  ];
}

/** What somebody should know, who is told of it, and what changes at this moment. */
export function AlarmsPage() {
  useTitle('Alarms and events');
  const query = useQuery(alarmsQuery);
  const role = useQuery(sessionQuery).data?.role;
  const [chosen, setChosen] = useState<Alarm | null>(null);
  return (
    <>
      <PageHead title="Alarms and events" />
      <p className="page-lead">
        An alarm is raised when something is wrong for long enough to be told to somebody. It is
        over by itself when that has been well for as long, and is raised still until then: how long
        that is for each kind is said below.
      </p>
      <Shown query={query} what="the alarms">
        {({ alarms }) => {
          const raised = alarms.filter((one) => one.cleared_ms == null);
          return (
            <Panel title={`Raised (${raised.length})`} flush>
              <DataTable
                label="Raised alarms"
                rows={raised}
                columns={columns(role && role !== 'viewer' ? setChosen : null)}
                rowId={(one) => String(one.id)}
                sortBy="what"
                search={raised.length > 8 ? 'alarms' : undefined}
                empty={<Empty title="None">Nothing is wrong that somebody should know.</Empty>}
              />
            </Panel>
          );
        }}
      </Shown>
      {/* Nodes keep it, also where what alarms are in cannot be read. */}
      <Events />
      <Over alarms={query.data?.alarms ?? []} />
      {role === 'administrator' ? <Receivers /> : null}
      <Kinds changes={role === 'administrator'} />
      {chosen ? <NoteDialog alarm={chosen} onClose={() => setChosen(null)} /> : null}
    </>
  );
}

/** Those that are not raised any more. */
function Over({ alarms }: { alarms: Alarm[] }) {
  const over = alarms.filter((one) => one.cleared_ms != null);
  if (over.length === 0) return null;
  return (
    <Panel title="Over" flush>
      <DataTable
        label="Alarms that are over"
        rows={over}
        columns={OVER}
        rowId={(one) => String(one.id)}
        sortBy="over"
        descending
        search={over.length > 8 ? 'alarms' : undefined}
        empty={null}
      />
    </Panel>
  );
}

function NoteDialog({ alarm, onClose }: { alarm: Alarm; onClose: () => void }) {
  const [note, setNote] = useState('');
  const path = { id: alarm.id };
  const take = useChange(() =>
    ask(
      client.POST('/api/v1/alarms/{id}/acknowledge', {
        params: { path },
        body: { note: note.trim() },
      }),
    ),
  );
  return (
    <Dialog
      title="Take note of an alarm"
      does="Take note"
      busy={take.isPending}
      error={take.error}
      onClose={onClose}
      onDo={() => take.mutate(undefined, { onSuccess: onClose })}
    >
      <p>
        {alarm.title}: {alarm.subject}. Others see that you know; it lasts as long as what it is
        about.
      </p>
      <TextInput
        data-autofocus
        label="What there is to say"
        placeholder="a ticket's number"
        autoComplete="off"
        maxLength={200}
        value={note}
        onChange={(event) => setNote(event.currentTarget.value)}
      />
    </Dialog>
  );
}

function kindColumns(change: ((kind: AlarmKind) => void) | null): Column<AlarmKind>[] {
  const columns: Column<AlarmKind>[] = [
    {
      id: 'title',
      head: 'Kind',
      by: (one) => one.title,
      cell: (one) => <Explained tip={`${one.meaning} ${one.action}`}>{one.title}</Explained>,
    },
    { id: 'severity', head: 'Severity', by: (one) => one.severity, cell: (one) => one.severity },
    {
      id: 'set',
      head: 'Raised',
      tip: 'The value that raises one, or a worse one',
      by: (one) => one.threshold.set,
      cell: (one) =>
        one.off ? <Standing word="off" tone="warn" tip="None are raised" /> : raisedOf(one),
    },
    {
      id: 'clear',
      head: 'Over',
      tip: 'What ends one: a better value than this, or that it is not so any more',
      spare: true,
      by: (one) => one.threshold.clear,
      cell: (one) => clearOf(one),
    },
    {
      id: 'hold',
      head: 'For',
      tip: 'For how long either has to be so',
      numeric: true,
      by: (one) => one.threshold.hold_seconds,
      cell: (one) => span(one.threshold.hold_seconds),
    },
  ];
  if (change) {
    columns.push({
      id: 'orders',
      head: 'Change',
      by: () => 0,
      cell: (one) => (
        <Button
          variant="default"
          size="compact-xs"
          aria-label={`Change ${one.title}`}
          onClick={() => change(one)}
        >
          Change
        </Button>
      ),
    });
  }
  return columns;
}

function Kinds({ changes }: { changes: boolean }) {
  const query = useQuery(alarmKindsQuery);
  const [dialog, open, close] = useDialog<'change'>();
  const [chosen, setChosen] = useState<AlarmKind | null>(null);
  const change = (kind: AlarmKind) => {
    setChosen(kind);
    open('change');
  };
  return (
    <Panel title="When they are raised" flush>
      <Shown query={query} what="the kinds of alarms">
        {({ kinds }) => (
          <DataTable
            label="Kinds of alarms"
            rows={kinds}
            columns={kindColumns(changes ? change : null)}
            rowId={(one) => one.kind}
            sortBy="severity"
            empty={null}
          />
        )}
      </Shown>
      {dialog && chosen ? (
        <KindDialog
          present={chosen}
          latest={query.data?.kinds.find((one) => one.kind === chosen.kind)}
          onClose={close}
        />
      ) : null}
    </Panel>
  );
}

const NO_LIMIT = 'a whole number, without its unit';

function KindDialog({
  present,
  latest,
  onClose,
}: {
  present: AlarmKind;
  /** The same as it is on record now. */
  latest: AlarmKind | undefined;
  onClose: () => void;
}) {
  /** What is changed is what was shown, and not what somebody else makes of it meanwhile. */
  const [kind, setKind] = useState(present);
  const [set, setSet] = useState(limit(kind, kind.threshold.set));
  const [clear, setClear] = useState(limit(kind, kind.threshold.clear));
  const [hold, setHold] = useState(`${kind.threshold.hold_seconds} s`);
  const [off, setOff] = useState(kind.off);
  const params = { path: { kind: kind.kind }, header: unchanged(kind) };
  const save = useChange((body: AlarmKindChange) =>
    ask(client.PATCH('/api/v1/alarm-kinds/{kind}', { params, body })),
  );
  const reset = useChange(() => ask(client.DELETE('/api/v1/alarm-kinds/{kind}', { params })));
  const show = (now: AlarmKind) => {
    setKind(now);
    setSet(limit(now, now.threshold.set));
    setClear(limit(now, now.threshold.clear));
    setHold(`${now.threshold.hold_seconds} s`);
    setOff(now.off);
  };
  const done = {
    onSuccess: () => {
      say(`It is in force: ${kind.title}`);
      onClose();
    },
  };
  const values = kind.unit === 'state' ? {} : { set: readLimit(set), clear: readLimit(clear) };
  const seconds = /^0( s)?$/.test(hold.trim()) ? 0 : parseSpan(hold);
  const ready = seconds !== null && Object.values(values).every((value) => value !== null);
  return (
    <Dialog
      title={kind.title}
      does="Save"
      ready={ready}
      busy={save.isPending || reset.isPending}
      error={save.error ?? reset.error}
      onClose={onClose}
      onDo={() => save.mutate({ ...values, hold_seconds: seconds, off }, done)}
    >
      <Outdated order={save} shown={kind} latest={latest} onShow={show} />
      <Outdated order={reset} shown={kind} latest={latest} onShow={show} />
      <p>
        <Prose text={kind.meaning} />
      </p>
      {kind.unit === 'state' ? null : (
        <>
          <TextInput
            data-autofocus
            label={`Raised at (${kind.unit})`}
            autoComplete="off"
            value={set}
            error={readLimit(set) === null ? NO_LIMIT : undefined}
            onChange={(event) => setSet(event.currentTarget.value)}
          />
          <TextInput
            label={`Over when better than (${kind.unit})`}
            autoComplete="off"
            value={clear}
            error={readLimit(clear) === null ? NO_LIMIT : undefined}
            onChange={(event) => setClear(event.currentTarget.value)}
          />
        </>
      )}
      <TextInput
        label="When it is so for"
        error={seconds === null ? 'as in 30 s' : undefined}
        description="such as 30 s or 10 min; 0 for at once"
        autoComplete="off"
        value={hold}
        onChange={(event) => setHold(event.currentTarget.value)}
      />
      <Tick label="Raise none" value={off} onChange={setOff} />
      <p>
        <Button variant="default" size="compact-sm" onClick={() => reset.mutate(undefined, done)}>
          Back to the default
        </Button>
      </p>
    </Dialog>
  );
}
