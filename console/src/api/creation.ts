import { useState } from 'react';
import { freshKey, keyAfter } from './key';
import { useChange } from './queries';

/** Something that is asked for as a draft says, and made once however often that is sent. */
export function useCreation<D extends object, R>(
  first: D,
  make: (draft: D, params: { header: { 'Idempotency-Key': string } }) => Promise<R>,
) {
  const [draft, setDraft] = useState(first);
  const [key, setKey] = useState(freshKey);
  const create = useChange(() => make(draft, { header: { 'Idempotency-Key': key } }));
  const change = (to: Partial<D>) => {
    setKey(keyAfter(create.error, key));
    setDraft({ ...draft, ...to });
  };
  return { draft, change, create };
}
