/** Hints that name a command which lists what there is, and the pages that do the same. */
const LISTS: Record<string, { to: string; name: string }> = {
  volume: { to: '/volumes', name: 'Volumes' },
  node: { to: '/nodes', name: 'Nodes' },
  initiator: { to: '/hosts', name: 'Hosts' },
};

/** The page that lists which there are, where a hint says no more than which command does; null if there is none. */
export function listOf(hint: string | null): { to: string; name: string } | null {
  const found = /^`holdfast (\w+) list` tells which there are$/.exec(hint ?? '');
  return LISTS[found?.[1] ?? ''] ?? null;
}
