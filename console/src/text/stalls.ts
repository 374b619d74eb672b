import type { Stall } from '../api/types';

/** Begins and lengths of one stall, as its volume and its host have them, differ by no more: it is the least that a stall lasts. */
const APART_MS = 100;

/** Stalls of everybody at a portal, and of each host there; where it was one host, they are the same, and are told once, with the host. */
export function toldOnce(stalls: Stall[]): Stall[] {
  const told = new Set<Stall>();
  const found = stalls.map((stall) => {
    if (stall.initiator != null) return stall;
    const hosts = stalls.filter((one) => one.initiator != null && isDuring(one, stall));
    const [host] = hosts;
    if (hosts.length !== 1 || !host || !isSame(host, stall)) return stall;
    told.add(host);
    return { ...stall, initiator: host.initiator };
  });
  return found.filter((stall) => !told.has(stall));
}

function isDuring(one: Stall, other: Stall): boolean {
  return (
    one.volume === other.volume &&
    one.portal === other.portal &&
    one.began_ms < other.began_ms + other.length_ms &&
    other.began_ms < one.began_ms + one.length_ms
  );
}

function isSame(one: Stall, other: Stall): boolean {
  return (
    Math.abs(one.began_ms - other.began_ms) < APART_MS &&
    Math.abs(one.length_ms - other.length_ms) < APART_MS &&
    one.lasting === other.lasting
  );
}
