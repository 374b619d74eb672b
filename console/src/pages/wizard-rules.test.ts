import { expect, test } from 'vitest';
import { type Draft, faults, lunOf, targetOf } from './wizard-rules';

const good: Draft = {
  name: 'sql-data',
  size: '100 GiB',
  policy: 'mirror2',
  everybody: true,
  initiators: [],
  target: '',
  lun: '',
};

test('what is good is let through', () => {
  expect(faults(good, ['other'])).toEqual({});
  const closed = { ...good, everybody: false, initiators: ['iqn.1993-08.org.debian:01:2d4f1a'] };
  expect(faults(closed, [])).toEqual({});
  expect(faults({ ...good, target: 'iqn.2026-11.com.example:db', lun: '255' }, [])).toEqual({});
});

test('what the API would refuse is refused where it is typed', () => {
  expect(faults({ ...good, name: 'M !' }, []).name).toBe("'M', ' ' and '!' are not allowed");
  expect(faults({ ...good, name: 'm!' }, []).name).toBe("'!' is not allowed");
  expect(faults({ ...good, name: '' }, []).name).toBe('a name is needed');
  expect(faults({ ...good, name: 'a'.repeat(64) }, []).name).toMatch(/63 at most/);
  for (const name of ['-x', '..', '.', 'a.', 'a-', '-'.repeat(63)])
    expect(faults({ ...good, name }, []).name).toMatch(/begins and ends with a letter or a digit/);
  for (const name of ['a', '7', 'a.b-c', '0..9'])
    expect(faults({ ...good, name }, []).name).toBeUndefined();
  expect(faults(good, ['sql-data']).name).toMatch(/already/);
  for (const size of ['', '0', '1000 B', '65 TiB']) {
    expect(faults({ ...good, size }, []).size).toBeDefined();
  }
  // As the command line does: two of what?
  expect(faults({ ...good, size: '2' }, []).size).toMatch(/its unit.*as in 2 GiB/);
  expect(faults({ ...good, size: '4G' }, []).size).toMatch(/as in 4 GiB/);
  // Of nothing no unit is asked for.
  for (const size of ['0', '0.0', '0 GiB'])
    expect(faults({ ...good, size }, []).size).toBe('more than nothing');
  for (const size of ['65 TiB', '5000 PiB', '99999999 PiB'])
    expect(faults({ ...good, size }, []).size).toBe('64\u00a0TiB at most');
  expect(faults({ ...good, size: 'much' }, []).size).toMatch(/as in 100 GiB/);
  expect(faults({ ...good, everybody: false }, []).initiators).toBeDefined();
  expect(faults({ ...good, everybody: false, initiators: ['host1'] }, []).initiators).toMatch(
    /host1/,
  );
  expect(faults({ ...good, target: 'db' }, []).target).toBeDefined();
  expect(
    faults({ ...good, target: 'iqn.2026-11.com.example:db', lun: '256' }, []).lun,
  ).toBeDefined();
});

test('it is said which target and LUN hosts will see', () => {
  expect([targetOf(good), lunOf(good)]).toEqual(['iqn.2026-11.io.holdfast:sql-data', '0']);
  const shared = { target: ' iqn.2026-11.com.example:db ', lun: '3' };
  expect([targetOf({ ...good, ...shared }), lunOf(shared)]).toEqual([
    'iqn.2026-11.com.example:db',
    '3',
  ]);
  // Without a target of several volumes there is no number to choose.
  expect(lunOf({ target: '', lun: '3' })).toBe('0');
});
