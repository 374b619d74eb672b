import { Fragment } from 'react';
import { pieces, sentence } from '../text/prose';

/** A text of the interface: code as code, chapters as links into the book. */
export function Prose({ text, alone = false }: { text: string; alone?: boolean }) {
  const all = pieces(alone ? sentence(text) : text);
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
