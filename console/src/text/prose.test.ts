import { expect, test } from 'vitest';
import { anchor, book, pieces, sentence, unbroken } from './prose';

test('what stands between backticks is code', () => {
  expect(pieces('see `holdfast node list`, then `x`')).toEqual([
    { is: 'text', text: 'see ' },
    { is: 'code', text: 'holdfast node list' },
    { is: 'text', text: ', then ' },
    { is: 'code', text: 'x' },
  ]);
  // One that has no other is a letter.
  expect(pieces('a ` alone')).toEqual([{ is: 'text', text: 'a ` alone' }]);
  expect(pieces('')).toEqual([]);
});

test('chapters lead into the book, and to what is named there', () => {
  expect(pieces('"A member whose data is lost" in docs/deployment.md.')).toEqual([
    {
      is: 'link',
      text: '“A member whose data is lost” in the book',
      to: '/docs/deployment.html#a-member-whose-data-is-lost',
    },
    { is: 'text', text: '.' },
  ]);
  expect(pieces('(docs/reference/findings.md)')[1]).toEqual({
    is: 'link',
    text: 'the book: reference/findings',
    to: '/docs/reference/findings.html',
  });
  expect(book('hosts')).toBe('/docs/hosts.html');
  expect(anchor('`code` and: more')).toBe('code-and-more');
});

test('a number stays on the line of its unit', () => {
  expect(unbroken('in 60 min, 13.4 % of 4 GiB; 3 slices')).toBe(
    'in 60\u00a0min, 13.4\u00a0% of 4\u00a0GiB; 3 slices',
  );
  expect(pieces('`wait 5 s`')).toEqual([{ is: 'code', text: 'wait 5 s' }]);
});

test('sizes are written in one way, and those of commands stay as they are typed', () => {
  expect(unbroken('1824GiB of 2TiB, made of 4MiB.')).toBe(
    '1.78\u00a0TiB of 2\u00a0TiB, made of 4\u00a0MiB.',
  );
  for (const text of ['disk-4GiB', 'v1.4GiB', '4GiB-disk', '4 slices']) {
    expect(unbroken(text)).toBe(text);
  }
  expect(pieces('`--size 4GiB`')).toEqual([{ is: 'code', text: '--size 4GiB' }]);
});

test('a finding that stands alone begins as a sentence does', () => {
  expect(sentence('the copy on n3 is missing')).toBe('The copy on n3 is missing');
  expect(sentence('start db-1: on its machine')).toBe('Start db-1: on its machine');
  expect(sentence('what db-1 held')).toBe('What db-1 held');
  expect(sentence('1 of 2 slices')).toBe('1 of 2 slices');
  expect(sentence('')).toBe('');
});

test('names stay as they are, wherever they stand', () => {
  for (const name of [
    'n3',
    'db-1',
    'alpha',
    'a',
    'the-first',
    'nothing.example',
    'iqn.2024-01',
    'etcd',
  ]) {
    expect(sentence(`${name} is down`)).toBe(`${name} is down`);
    expect(sentence(`${name}: it is down`)).toBe(`${name}: it is down`);
  }
  expect(sentence('wait: it is down')).toBe('wait: it is down');
  // A name may be a word of ours.
  const isName = (word: string) => ['stop', 'it'].includes(word);
  for (const name of ['stop', 'it']) {
    expect(sentence(`${name} is down`, isName)).toBe(`${name} is down`);
    expect(sentence(`${name} is down`)).not.toBe(`${name} is down`);
  }
  expect(sentence('the copy on stop is missing', isName)).toBe('The copy on stop is missing');
});
