import { expect, test } from 'vitest';
import { arrange, type Key, pageOf } from './rows';

type Row = { name: string; size: number };

const KEYS: Key<Row>[] = [
  { id: 'name', by: (row) => row.name },
  { id: 'size', by: (row) => row.size },
];
const ROWS: Row[] = [
  { name: 'vm-10', size: 9 },
  { name: 'vm-2', size: 100 },
  { name: 'Db', size: 9 },
];

const names = (rows: Row[]) => rows.map((row) => row.name);

test('names are in the order in which people count', () => {
  expect(names(arrange(ROWS, KEYS, { id: 'name', down: false }, ''))).toEqual([
    'Db',
    'vm-2',
    'vm-10',
  ]);
  expect(names(arrange(ROWS, KEYS, { id: 'name', down: true }, ''))).toEqual([
    'vm-10',
    'vm-2',
    'Db',
  ]);
});

test('numbers are sorted as numbers, and what is equal stays as it came', () => {
  expect(names(arrange(ROWS, KEYS, { id: 'size', down: false }, ''))).toEqual([
    'vm-10',
    'Db',
    'vm-2',
  ]);
});

test('what is sought may stand in any column, in letters of any size', () => {
  expect(names(arrange(ROWS, KEYS, { id: 'name', down: false }, ' VM '))).toEqual([
    'vm-2',
    'vm-10',
  ]);
  expect(names(arrange(ROWS, KEYS, { id: 'name', down: false }, '100'))).toEqual(['vm-2']);
  expect(arrange(ROWS, KEYS, { id: 'name', down: false }, 'none')).toEqual([]);
});

test('rows that came are not put into another order where they are', () => {
  const before = names(ROWS);
  arrange(ROWS, KEYS, { id: 'name', down: false }, '');
  expect(names(ROWS)).toEqual(before);
});

test('there is a page to show whatever went', () => {
  expect(pageOf(120, 50, 2)).toBe(2);
  expect(pageOf(100, 50, 2)).toBe(1);
  expect(pageOf(0, 50, 3)).toBe(0);
});
