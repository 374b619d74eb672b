import { bytes, parseBytes } from './units';

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

/** Units of numbers in texts, for a pattern. */
export const UNITS = '%|B|[KMGTP]iB|µs|ms|s|min|h|d|IOPS|×';
const NUMBER_AND_UNIT = new RegExp(`(\\d) (?=(?:${UNITS})(?![\\w]))`, 'g');

/** A size as commands take it, without a space; one within a name is none. */
const SIZES = /(?<![\w.-])\d+[KMGTP]iB(?![\w-])/g;

/** With numbers that stay on the line of their units, and sizes as they are written everywhere else: 1.78 TiB, not 1824GiB. */
export function unbroken(text: string): string {
  const written = text.replace(SIZES, (size) => bytes(parseBytes(size) ?? 0));
  return written.replace(NUMBER_AND_UNIT, '$1\u00a0');
}

/**
 * Words of ours that texts of the interface begin with. No others are written large: any other may be the name of a node, a volume or a
 * host, and those are told from each other by every letter. "a" and "one" are not among them, for nodes are called so.
 */
const OUR_WORDS =
  'the|it|its|this|what|that|nothing|no|not|if|hosts|nobody|volumes|copies|room|' +
  'add|ask|bring|call|correct|delete|do|end|give|have|let|look|make|put|rebuild|see|start|stop|take|wait';
const BEGINS = new RegExp(`^(?:${OUR_WORDS})(?= )`);

/** As a sentence of its own begins, unless it does with what may be a name, or is one: then it is as the interface tells it. */
export function sentence(text: string, isName: (word: string) => boolean = () => false): string {
  return text.replace(BEGINS, (word) =>
    isName(word) ? word : word.charAt(0).toUpperCase() + word.slice(1),
  );
}
