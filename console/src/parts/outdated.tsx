import { Button } from '@mantine/core';
import { Problem } from '../api/client';

/** What an entity tag names a state of. */
export type Tagged = { etag?: string | null };

/** The header of a change that is made only if nobody else has made one since that was shown. */
export function unchanged(shown: Tagged | null): { 'If-Match'?: string } {
  return shown?.etag ? { 'If-Match': shown.etag } : {};
}

/** An order that was refused because somebody else was faster: nothing is done before one has seen what there is now. */
export function Outdated<T extends Tagged>({
  order,
  shown,
  latest,
  onShow,
}: {
  order: { error: unknown; reset: () => void };
  /** What the order was for. */
  shown: Tagged | null;
  /** The same as it is on record now. */
  latest: T | undefined;
  onShow: (now: T) => void;
}) {
  const { error, reset } = order;
  if (!(error instanceof Problem && error.status === 412 && latest)) return null;
  return (
    <p>
      Somebody else has changed it since you opened this.{' '}
      <Button
        variant="default"
        size="compact-sm"
        // What was refused is read again, which takes a moment.
        disabled={latest.etag === shown?.etag}
        onClick={() => {
          onShow(latest);
          reset();
        }}
      >
        Show what is on record now
      </Button>
    </p>
  );
}
