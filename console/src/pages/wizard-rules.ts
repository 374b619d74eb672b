import type { Policy } from '../api/types';
import { bytes, parseBytes } from '../text/units';

/** What is being typed, as it is typed. */
export type Draft = {
  name: string;
  size: string;
  policy: Policy;
  everybody: boolean;
  initiators: string[];
  target: string;
  lun: string;
};

export const VOLUME_BYTES_MAX = 64 * 1024 ** 4;
const TOO_LARGE = `${bytes(VOLUME_BYTES_MAX)} at most`;
const BLOCK_BYTES = 4096;
const NAME_LENGTH_MAX = 63;
const ISCSI_NAME =
  /^(iqn\.\d{4}-\d{2}\.[a-z0-9.:-]+|eui\.[0-9a-f]{16}|naa\.([0-9a-f]{16}|[0-9a-f]{32}))$/i;

export function sizeFault(size: string): string | undefined {
  if (/^\s*0+(\.0*)?\s*$/.test(size)) return 'more than nothing';
  const count = parseBytes(size);
  if (count === null) {
    if (/^\s*\d+(?:\.\d+)?\s*[kmgtp]ib\s*$/i.test(size)) return TOO_LARGE;
    const number = /^\s*(\d+(?:\.\d+)?)\s*[kmgtp]?b?\s*$/i.exec(size)?.[1] ?? '100';
    return `a number and its unit (MiB, GiB or TiB), as in ${number} GiB`;
  }
  if (count === 0) return 'more than nothing';
  if (count % BLOCK_BYTES !== 0) return 'a multiple of 4 KiB';
  if (count > VOLUME_BYTES_MAX) return TOO_LARGE;
  return undefined;
}

export function initiatorFault(name: string): string | undefined {
  if (name.length <= 223 && ISCSI_NAME.test(name)) return undefined;
  return `${name} is no iSCSI name, as in iqn.1993-08.org.debian:01:2d4f1a`;
}

export function nameFault(name: string): string | undefined {
  if (name === '') return 'a name is needed';
  const bad = [...new Set(name.match(/[^a-z0-9.-]/gu))].map((one) => `'${one}'`);
  const last = bad.pop();
  if (last !== undefined) {
    return bad.length === 0
      ? `${last} is not allowed`
      : `${bad.join(', ')} and ${last} are not allowed`;
  }
  if (name.length > NAME_LENGTH_MAX) return `${name.length} characters; ${NAME_LENGTH_MAX} at most`;
  return /^[-.]|[-.]$/.test(name) ? 'it begins and ends with a letter or a digit' : undefined;
}

/** What a target of a volume's own is called, before the volume's name. */
const TARGET_PREFIX = 'iqn.2026-11.io.holdfast:';

/** The target that hosts will see. */
export function targetOf(draft: Pick<Draft, 'name' | 'target'>): string {
  return draft.target.trim() || `${TARGET_PREFIX}${draft.name}`;
}

/** The volume's number there. */
export function lunOf(draft: Pick<Draft, 'target' | 'lun'>): string {
  return (draft.target.trim() && draft.lun.trim()) || '0';
}

/** What is wrong with it so far. The API has the last word. */
export function faults(
  draft: Draft,
  taken: string[],
): Partial<Record<'name' | 'size' | 'initiators' | 'target' | 'lun', string>> {
  const found: ReturnType<typeof faults> = {};
  const name = nameFault(draft.name);
  if (name) found.name = name;
  else if (taken.includes(draft.name)) found.name = 'there is a volume of this name already';
  const size = sizeFault(draft.size);
  if (size) found.size = size;
  const target = draft.target.trim();
  if (target) {
    const fault = initiatorFault(target);
    if (fault) found.target = fault;
    if (!/^\d*$/.test(draft.lun.trim()) || Number(draft.lun) > 255)
      found.lun = 'a number from 0 to 255';
  }
  if (!draft.everybody) {
    const fault = draft.initiators.map(initiatorFault).find((one) => one !== undefined);
    if (draft.initiators.length === 0) found.initiators = 'name one at least';
    else if (fault) found.initiators = fault;
  }
  return found;
}
