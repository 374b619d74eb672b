/** What of a table is shown, and in which order. */

/** What rows are sorted and searched by. */
export type Key<T> = { id: string; by: (row: T) => string | number };

export type Order = { id: string; down: boolean };

/** As people count: `node-2` stands before `node-10`. */
const { compare } = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });

/** Rows in which some column has the text, in order; those that are equal stay as they came. */
export function arrange<T>(rows: T[], keys: Key<T>[], order: Order, sought: string): T[] {
  const text = sought.trim().toLowerCase();
  const found =
    text === ''
      ? rows
      : rows.filter((row) => keys.some(({ by }) => String(by(row)).toLowerCase().includes(text)));
  const by = keys.find(({ id }) => id === order.id)?.by;
  if (!by) return found;
  const sign = order.down ? -1 : 1;
  // Each key is made once: a comparison for each pair would make it many times over.
  return found
    .map((row) => ({ row, key: by(row) }))
    .sort((one, other) => sign * between(one.key, other.key))
    .map(({ row }) => row);
}

function between(one: string | number, other: string | number): number {
  if (typeof one === 'number' && typeof other === 'number') return one - other;
  return compare(String(one), String(other));
}

/** The page that is shown of so many rows: those that went may have taken it with them. */
export function pageOf(rows: number, size: number, asked: number): number {
  return Math.max(0, Math.min(asked, Math.ceil(rows / size) - 1));
}
