import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { sheet } from '../theme-css';

/** A file's text; those of packages are named as style sheets name them. */
function text(path: string): string {
  return readFileSync(path.startsWith('@') ? `node_modules/${path}` : path, 'utf8');
}

test('every colour of the theme that a style sheet names is there', () => {
  const own = readdirSync('src/styles').map((name) => text(`src/styles/${name}`));
  const mantine = [...text('src/styles/mantine.css').matchAll(/"(@mantine[^"]+)"/g)];
  const all = [...own, ...mantine.map(([, path]) => text(path ?? '')), sheet()].join('\n');
  const named = [...all.matchAll(/var\((--mantine-color-[a-z]+(?:-[a-z0-9-]+)?)/g)];
  const used = [...new Set(named.map(([, name]) => name))];
  expect(used.length).toBeGreaterThan(30);
  expect(used.filter((name) => !all.includes(`${name}:`))).toEqual([]);
});

test('colours that nothing is drawn in are not sent', () => {
  expect(sheet()).toContain('--mantine-color-red-8:');
  expect(sheet()).not.toContain('--mantine-color-grape-8:');
});
