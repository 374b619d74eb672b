/** Texts of the interface (findings, hints, what alarms mean): what in them is code, and what leads into the book. */

export type Piece =
  | { is: 'text'; text: string }
  | { is: 'code'; text: string }
  | { is: 'link'; text: string; to: string };

/** Code as in `holdfast status`; a chapter as in docs/security.md, with a heading of it in front or not. */
const MARKS = /`([^`]+)`|(?:"([^"]+)" in )?\bdocs\/([a-z0-9/-]+)\.md/g;

/** A text in pieces, in order. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let from = 0;
  for (const mark of text.matchAll(MARKS)) {
    const [whole, code, heading, chapter] = mark;
    if (mark.index > from) found.push(plain(text.slice(from, mark.index)));
    if (code !== undefined) found.push({ is: 'code', text: code });
    else if (chapter !== undefined) found.push(link(chapter, heading));
    from = mark.index + whole.length;
  }
  if (from < text.length) found.push(plain(text.slice(from)));
  return found;
}

function plain(text: string): Piece {
  return { is: 'text', text: unbroken(text) };
}

function link(chapter: string, heading: string | undefined): Piece {
  const page = book(chapter);
  if (heading === undefined) return { is: 'link', text: `the book: ${chapter}`, to: page };
  return { is: 'link', text: `“${heading}” in the book`, to: `${page}#${anchor(heading)}` };
}

/** Where every node serves a chapter, with a heading of it or not. */
export function book(chapter: string, heading?: string): string {
  return `/docs/${chapter}.html${heading === undefined ? '' : `#${anchor(heading)}`}`;
}

/** What links call a heading. */
export function anchor(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replace(/ /g, '-');
}

const UNITS = '%|B|[KMGTP]iB|µs|ms|s|min|h|d|IOPS|×';
const NUMBER_AND_UNIT = new RegExp(`(\\d) (?=(?:${UNITS})(?![\\w]))`, 'g');

/** With numbers that stay on the line of their units. */
export function unbroken(text: string): string {
  return text.replace(NUMBER_AND_UNIT, '$1\u00a0');
}

/** Words that are written small wherever they stand. */
const SMALL = /^(?:etcd|iqn|[a-z]*\d)/;

/** As a sentence of its own begins. */
export function sentence(text: string): string {
  if (SMALL.test(text)) return text;
  return text.charAt(0).toUpperCase() + text.slice(1);
}
