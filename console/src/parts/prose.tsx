import { Fragment } from 'react';
import { nodesQuery, queryClient, volumesQuery } from '../api/queries';
import { pieces, sentence } from '../text/prose';

/** Whether something is called so, of what is known already: nothing is asked for because of it. */
function isName(word: string): boolean {
  const nodes = queryClient.getQueryData(nodesQuery.queryKey)?.nodes ?? [];
  const volumes = queryClient.getQueryData(volumesQuery.queryKey)?.volumes ?? [];
  return [...nodes, ...volumes].some(({ name }) => name === word);
}

/** A text of the interface: code as code, chapters as links into the book. */
export function Prose({ text, alone = false }: { text: string; alone?: boolean }) {
  const all = pieces(alone ? sentence(text, isName) : text);
  const counted = all.map((piece, place) => ({ piece, key: `${place} ${piece.text}` }));
  return (
    <>
      {counted.map(({ piece, key }) => {
        if (piece.is === 'code') return <code key={key}>{piece.text}</code>;
        if (piece.is === 'text') return <Fragment key={key}>{piece.text}</Fragment>;
        return (
          <a key={key} href={piece.to} target="_blank" rel="noreferrer">
            {piece.text}
          </a>
        );
      })}
    </>
  );
}
