import { MantineProvider } from '@mantine/core';
import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, expect, test } from 'vitest';
import type { Alarm, Explanation, Status } from '../api/types';
import { Attention } from './attention';

const CLOCK: Alarm = {
  id: 7,
  kind: 'clock-skew',
  severity: 'warning',
  subject: 'node n1',
  title: 'Clocks differ',
  detail: 'its clock differs by 2000 ms from those of most nodes',
  meaning: '',
  action: "Have the machine's clock set by NTP.",
  raised_ms: 1,
};

function shown(alarms: Alarm[] | undefined, unknown: unknown = null) {
  const explanation = { metadata: [], nodes: [], volumes: [] } as unknown as Explanation;
  const status = { alerts: [] } as unknown as Status;
  render(
    <MantineProvider env="test">
      <Attention explanation={explanation} status={status} alarms={alarms} unknown={unknown} />
    </MantineProvider>,
  );
}

afterEach(cleanup);

test('an alarm that is raised is said: how bad, of what, what, where, and what to do', () => {
  shown([CLOCK, { ...CLOCK, id: 8, severity: 'critical', subject: 'volume db' }]);
  expect(screen.queryByText('Nothing')).toBeNull();
  const [critical, warning] = screen.getAllByRole('listitem');
  expect(critical?.textContent).toContain('Critical alarm, volume db: Clocks differ.');
  expect(warning?.textContent).toContain('Alarm, node n1: Clocks differ. Its clock differs by');
  expect(warning?.textContent).toContain('set by NTP');
  const links = screen.getAllByRole('link').map((link) => link.getAttribute('href'));
  expect(links).toEqual(['/alarms', '/volumes/db', '/alarms', '/nodes/n1']);
});

test('nothing is said to need attention only where that is known', () => {
  shown([]);
  screen.getByText('Nothing');
  cleanup();
  shown(undefined);
  expect(screen.queryByText('Nothing')).toBeNull();
  cleanup();
  shown(undefined, new Error('no answer'));
  expect(screen.queryByText('Nothing')).toBeNull();
  screen.getByText(/Alarms could not be read/);
  cleanup();
  // Raised still, though somebody knows.
  shown([{ ...CLOCK, acknowledged: { by: 'user admin', at_ms: 2, note: '' } }]);
  expect(screen.queryByText('Nothing')).toBeNull();
  screen.getByText('Nothing new');
  screen.getByText(/1 alarm is raised still/);
});
