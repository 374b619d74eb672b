/** Whether two texts are one but for which spaces they have: a unit that is typed has another than one that is shown. */
export function isSame(one: string, other: string): boolean {
  const plain = (text: string) => text.trim().replace(/\s+/g, ' ');
  return plain(one) === plain(other);
}
