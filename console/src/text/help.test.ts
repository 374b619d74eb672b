import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ALL_CHAPTERS, chapterOf, helpFor } from './help';

test('each page has a chapter', () => {
  expect(chapterOf([])).toBe('console');
  expect(chapterOf(['nodes', 'n1'])).toBe('day2');
  expect(chapterOf(['volumes', '+new'])).toBe('planning');
  expect(chapterOf(['volumes', 'data'])).toBe('day2');
  expect(chapterOf(['volumes', 'data', 'attach'])).toBe('hosts');
  expect(chapterOf(['nothing'])).toBe('console');
  expect(helpFor(['alarms'])).toBe('/docs/reference/alarms.html');
});

test('chapters are in the book', () => {
  for (const chapter of ['console', ...ALL_CHAPTERS]) {
    expect(existsSync(`../docs/${chapter}.md`), chapter).toBe(true);
  }
});
