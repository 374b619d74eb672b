import { MantineProvider } from '@mantine/core';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { StrictMode, useState } from 'react';
import { afterEach, expect, test } from 'vitest';
import { Dialog } from './dialog';

function Page() {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        Grow
      </button>
      {open ? (
        <Dialog
          title="Grow it"
          does="Do"
          busy={false}
          error={null}
          onClose={() => setOpen(false)}
          onDo={() => {}}
        />
      ) : null}
    </>
  );
}

afterEach(cleanup);

test('when a dialog is gone, the focus is where it was opened from', async () => {
  render(
    <StrictMode>
      <MantineProvider env="test">
        <Page />
      </MantineProvider>
    </StrictMode>,
  );
  const button = screen.getByRole('button', { name: 'Grow' });
  button.focus();
  fireEvent.click(button);
  const cancel = await screen.findByRole('button', { name: 'Cancel' });
  cancel.focus();
  fireEvent.click(cancel);
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
  await waitFor(() => expect(document.activeElement).toBe(button));
});
