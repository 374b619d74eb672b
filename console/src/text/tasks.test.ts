import { expect, test } from 'vitest';
import type { Task } from '../api/types';
import { byWaiting, partDone, taskKind, tasksSentence } from './tasks';

const task = (id: string, more: Partial<Task> = {}): Task => ({
  id,
  kind: 'sync',
  subject: id,
  ...more,
});

test('what waits comes last, and what takes longest first', () => {
  const tasks = [
    task('waits 10', { is_waiting: true }),
    task('waits 9', { is_waiting: true }),
    task('no-rate'),
    task('short', { seconds_left: 5 }),
    task('long', { seconds_left: 60 }),
  ];
  const sorted = byWaiting(tasks).map(({ id }) => id);
  expect(sorted).toEqual(['long', 'short', 'no-rate', 'waits 9', 'waits 10']);
  expect(tasksSentence(tasks)).toBe('3 under way, 2 wait');
  expect(tasksSentence(tasks.slice(0, 1))).toBe('1 waits');
  expect(tasksSentence(tasks.slice(2))).toBe('3 under way');
});

test('only where a total is known is there a part of it', () => {
  expect(partDone(task('a', { bytes_done: 25, bytes_total: 100 }))).toBe(0.25);
  expect(partDone(task('a', { bytes_left: 100 }))).toBeNull();
  expect(partDone(task('a', { bytes_done: 0, bytes_total: 0 }))).toBeNull();
});

test('a kind of a newer version is other work', () => {
  expect(taskKind(task('a', { kind: 'defragment' as Task['kind'] })).word).toBe('other work');
});
