import { expect, test } from 'vitest';
import { recipes } from './attach';

const volume = {
  target: 'iqn.2026-11.io.holdfast:db',
  lun: 1,
  portals: ['192.0.2.1:3260', '[2001:db8::2]:3261'],
};

test('every kind of host is told the target, or the portals, of this volume', () => {
  const all = recipes(volume).map((recipe) => recipe.steps.map((step) => step.commands).join('\n'));
  const [linux, windows, esxi, qemu] = all;
  expect(linux).toContain('--portal 192.0.2.1:3260');
  expect(linux).toContain(volume.target);
  // A host has no files of ours: what it needs is in the commands, and done twice it is there once.
  expect(linux).toMatch(/grep -q 'Sessions to Holdfast' .*\|\| cat >>.*\n# Sessions to Holdfast/);
  expect(linux).toContain('path_grouping_policy group_by_prio');
  expect(windows).toContain('-TargetPortalAddress 2001:db8::2 -TargetPortalPortNumber 3261');
  expect(esxi).toContain('--address=192.0.2.1:3260');
  expect(qemu).toContain('iscsi://192.0.2.1:3260/iqn.2026-11.io.holdfast:db/1');
});

test('a cluster of which no portal is known still has something to say', () => {
  expect(recipes({ ...volume, portals: [] })[0]?.steps[1]?.commands).toContain('NODE:3260');
});
