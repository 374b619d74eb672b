import { CloseButton } from '@mantine/core';
import { useEffect, useSyncExternalStore } from 'react';
import { Sign } from './basic';

/** What was done, said for a moment. What went wrong is said where it went wrong, and stays. */

type Said = { id: number; text: string };

const SHOWN_MS = 6_000;
/** Of more, the oldest go first. */
const SAID_MAX = 4;

let said: readonly Said[] = [];
let next = 0;
const listeners = new Set<() => void>();

function change(now: readonly Said[]): void {
  said = now;
  for (const listener of listeners) listener();
}

export function say(text: string): void {
  next += 1;
  change([...said, { id: next, text }].slice(-SAID_MAX));
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function SaidList() {
  const all = useSyncExternalStore(subscribe, () => said);
  return (
    <div className="said" role="status">
      {all.map((one) => (
        <SaidLine key={one.id} {...one} />
      ))}
    </div>
  );
}

function SaidLine({ id, text }: Said) {
  useEffect(() => {
    const timer = setTimeout(() => forget(id), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [id]);
  return (
    <div className="said-line">
      <Sign tone="good" />
      <span>{text}</span>
      <CloseButton size="xs" aria-label="Dismiss" onClick={() => forget(id)} />
    </div>
  );
}

function forget(id: number): void {
  change(said.filter((one) => one.id !== id));
}
