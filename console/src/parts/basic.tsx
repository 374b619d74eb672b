import { Badge, Button, Loader, Tooltip } from '@mantine/core';
import {
  IconAlertTriangle,
  IconCheck,
  IconCircleCheck,
  IconCircleX,
  IconCopy,
  IconPointFilled,
} from '@tabler/icons-react';
import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from 'react';
import { forbidden, told, Unreached } from '../api/client';
import type { Health } from '../api/types';
import { Link } from '../router';
import { listOf } from '../text/places';
import { plural } from '../text/units';
import { HEALTH, type Tone } from '../text/words';
import { Prose } from './prose';

/** A sign for each tone, so that nobody depends on seeing colours. */
export function Sign({ tone, size = 16 }: { tone: Tone; size?: number }) {
  const Icon = {
    good: IconCircleCheck,
    warn: IconAlertTriangle,
    bad: IconCircleX,
    calm: IconPointFilled,
  }[tone];
  return <Icon className={`tone-${tone}`} size={size} stroke={2} aria-hidden />;
}

/** How long one has to point at something before it explains itself. */
const POINTED_MS = 200;

/**
 * An explanation of what `about` is put on, with `on`: it is there when one points at that, or comes to it by keyboard. A table has
 * hundreds of them, and one is open at a time: only that one is made.
 */
export function useTip<E extends HTMLElement>(tip: string | undefined) {
  const about = useRef<E>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const [open, setOpen] = useState(false);
  const id = useId();
  useEffect(() => () => clearTimeout(timer.current), []);
  const show = (isShown: boolean, after = 0) => {
    clearTimeout(timer.current);
    if (after === 0) setOpen(isShown);
    else timer.current = setTimeout(() => setOpen(isShown), after);
  };
  const on = {
    'aria-describedby': open && tip ? id : undefined,
    onPointerEnter: () => show(true, POINTED_MS),
    onPointerLeave: () => show(false),
    onFocus: () => show(true),
    onBlur: () => show(false),
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key === 'Escape') show(false);
    },
  };
  // The tooltip has an id of its own, whatever it is given: what describes is named within it.
  const label = <span id={id}>{tip}</span>;
  const shown = open && tip ? <Tooltip role="tooltip" target={about} label={label} opened /> : null;
  return { about, on, shown };
}

/** Something that explains itself when one points at it, or comes to it by keyboard. */
export function Explained({
  tip,
  children,
  className,
}: {
  tip: string;
  children: ReactNode;
  className?: string;
}) {
  const { about, on, shown } = useTip<HTMLSpanElement>(tip);
  return (
    <>
      <span
        ref={about}
        className={`explained ${className ?? ''}`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the explanation is for those who have no pointer, too
        tabIndex={0}
        {...on}
      >
        {children}
      </span>
      {shown}
    </>
  );
}

/** How something stands: a sign, a word, an explanation. */
export function Standing({ word, tone, tip }: { word: string; tone: Tone; tip: string }) {
  return (
    <Explained tip={tip} className="standing">
      <Sign tone={tone} size={15} />
      <span>{word}</span>
    </Explained>
  );
}

export function HealthMark({ health }: { health: Health }) {
  return <Standing {...HEALTH[health]} />;
}

/** A number with its name, its unit, and what it means. */
export function Figure({
  name,
  value,
  tip,
  note,
  tone,
}: {
  name: string;
  value: ReactNode;
  tip: string;
  note?: ReactNode;
  tone?: Tone;
}) {
  return (
    <div className="figure">
      <Explained tip={tip} className="figure-name">
        {name}
      </Explained>
      <div className={`figure-value ${tone ? `tone-${tone}` : ''}`}>{value}</div>
      {note ? <div className="figure-note">{note}</div> : null}
    </div>
  );
}

/** How full something is: `part` of the whole, 0 to 1. */
export function Bar({
  label,
  part,
  tone = 'calm',
  wide = false,
}: {
  label: string;
  part: number;
  tone?: Tone;
  wide?: boolean;
}) {
  const whole = Math.max(0, Math.min(1, part));
  return (
    <div className={`bar bar-${tone} ${wide ? 'bar-wide' : ''}`} role="img" aria-label={label}>
      <div style={{ width: `${whole * 100}%` }} />
    </div>
  );
}

/** Fill of a pool or a device: it is calm until it is not. */
export function fillTone(part: number): Tone {
  if (part >= 0.95) return 'bad';
  return part >= 0.85 ? 'warn' : 'calm';
}

/** What went wrong: its kind, what exactly, and what to do. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const { title, detail, hint } = told(error);
  const list = listOf(hint);
  return (
    <div className="failure" role="alert">
      <Sign tone="bad" size={18} />
      <div>
        <div className="failure-title">{title}</div>
        <div>
          <Prose text={detail} />
        </div>
        {list ? (
          <div className="failure-hint">
            What helps: <Link to={list.to}>{list.name}</Link> tells which there are
          </div>
        ) : hint ? (
          <div className="failure-hint">
            What helps: <Prose text={hint} />
          </div>
        ) : null}
        {retry ? (
          <Button variant="default" mt="xs" onClick={retry}>
            Try again
          </Button>
        ) : null}
      </div>
    </div>
  );
}

/** The same of what is asked for again and again. That the node does not answer is said once, above every page. */
export function Failing({ error }: { error: unknown }) {
  return error && !(error instanceof Unreached) ? <Failure error={error} /> : null;
}

/** Nothing is there: what would be, and how it comes to be. */
export function Empty({
  title,
  children,
  action,
}: {
  title: string;
  children?: ReactNode;
  action?: ReactNode;
}) {
  return (
    <div className="empty">
      <div className="empty-title">{title}</div>
      {children ? <div className="empty-text">{children}</div> : null}
      {action}
    </div>
  );
}

/** Something is on its way. Nothing is drawn for what comes at once, as most does. */
export function Waiting({ what }: { what: string }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 250);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div className="waiting" role="status">
      {late ? (
        <>
          <Loader size="xs" /> <span>Reading {what}…</span>
        </>
      ) : null}
    </div>
  );
}

type Asked<T> = { data: T | undefined; error: unknown; refetch: () => unknown };

/** What a query has, or why it has nothing. Once something is known, it stays, and an error stands above it. */
export function Shown<T>({
  query,
  what,
  children,
}: {
  query: Asked<T>;
  what: string;
  children: (data: T) => ReactNode;
}) {
  const { data, error } = query;
  if (data === undefined) {
    return error ? (
      <Failure error={error} retry={forbidden(error) ? undefined : () => query.refetch()} />
    ) : (
      <Waiting what={what} />
    );
  }
  return (
    <>
      <Failing error={error} />
      {children(data)}
    </>
  );
}

/** Commands to be taken along. */
export function Commands({ text, label }: { text: string; label: string }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Browsers give the clipboard to pages from elsewhere only over TLS: the text is selected instead.
      const box = document.getElementById(id);
      if (box) window.getSelection()?.selectAllChildren(box);
      return;
    }
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  const id = `commands-${label.replace(/\W+/g, '-')}`;
  return (
    <div className="commands">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll by keyboard, too */}
      <section id={id} tabIndex={0} aria-label={label}>
        <pre>{text}</pre>
      </section>
      <Button
        variant="subtle"
        size="compact-xs"
        onClick={copy}
        aria-label={`Copy: ${label}`}
        leftSection={copied ? <IconCheck size={13} /> : <IconCopy size={13} />}
      >
        {copied ? 'Copied' : 'Copy'}
      </Button>
    </div>
  );
}

export function Tag({ children, tip }: { children: ReactNode; tip?: string }) {
  const badge = (
    <Badge variant="default" size="sm" radius="sm" tt="none" fw={500}>
      {children}
    </Badge>
  );
  return tip ? <Explained tip={tip}>{badge}</Explained> : badge;
}

/** A part of a page, with a heading. */
export function Panel({
  title,
  aside,
  children,
  flush = false,
}: {
  title: string;
  aside?: ReactNode;
  children: ReactNode;
  flush?: boolean;
}) {
  return (
    <section className="panel" aria-label={title}>
      <div className="panel-head">
        <h2>{title}</h2>
        {aside ? <div className="panel-aside">{aside}</div> : null}
      </div>
      <div className={flush ? 'panel-flush' : 'panel-body'}>{children}</div>
    </section>
  );
}

/** The head of a page: what it is about, how that stands, what can be done. */
export function PageHead({
  title,
  beside,
  actions,
  above,
}: {
  title: string;
  beside?: ReactNode;
  actions?: ReactNode;
  above?: ReactNode;
}) {
  return (
    <div className="page-head">
      <div>
        {above ? <div className="page-above">{above}</div> : null}
        <div className="page-title">
          <h1>{title}</h1>
          {beside}
        </div>
      </div>
      {actions ? <div className="page-actions">{actions}</div> : null}
    </div>
  );
}

/** Nodes whose part is missing from what is shown. */
export function Silent({ nodes }: { nodes: string[] }) {
  if (nodes.length === 0) return null;
  return (
    <p className="note note-inner">
      {plural(nodes.length, 'node')} did not answer ({nodes.join(', ')}): what{' '}
      {nodes.length === 1 ? 'it has' : 'they have'} is not among it.
    </p>
  );
}

/** That there is more than what is shown, if there is a `next` piece, and who tells it. */
export function More({
  next,
  shown,
  command,
}: {
  next: string | null | undefined;
  shown: number;
  command: string;
}) {
  if (next == null) return null;
  return (
    <p className="note note-inner">
      These are the newest {shown}; <code>{command}</code> tells what is older.
    </p>
  );
}
