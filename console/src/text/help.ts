import { book } from './prose';

/** Which chapter of the book is about a page. What has none of its own is told with the console. */
const CHAPTERS: Record<string, string> = {
  volumes: 'planning',
  nodes: 'day2',
  hosts: 'hosts',
  tasks: 'day2',
  alarms: 'reference/alarms',
  stalls: 'troubleshooting',
  settings: 'reference/cli',
  users: 'security',
  audit: 'security',
};
/** Parts of a page that are another chapter's. */
const PARTS: Record<string, string> = {
  copies: 'replication',
  access: 'security',
  paths: 'hosts',
  attach: 'hosts',
  stalls: 'troubleshooting',
};

/** The chapter about a page, by the parts of its path. */
export function chapterOf([place, name, part]: (string | undefined)[]): string {
  if (place === 'volumes' && name !== undefined) {
    if (part !== undefined && PARTS[part]) return PARTS[part];
    if (name !== '+new') return 'day2';
  }
  return (place && CHAPTERS[place]) || 'console';
}

/** Where that chapter is. */
export function helpFor(parts: (string | undefined)[]): string {
  return book(chapterOf(parts));
}

/** All that there are, for whoever looks whether they are in the book. */
export const ALL_CHAPTERS = [...new Set([...Object.values(CHAPTERS), ...Object.values(PARTS)])];
