import { NativeSelect } from '@mantine/core';
import type { Role } from '../api/types';

const ROLES: { value: Role; label: string }[] = [
  { value: 'viewer', label: 'Viewer: looks' },
  { value: 'operator', label: 'Operator: volumes, hosts, devices, maintenance' },
  { value: 'administrator', label: 'Administrator: settings, nodes, users as well' },
];

/** What a user, or the holder of a token, may. */
export function RoleSelect({ value, onChange }: { value: Role; onChange: (to: Role) => void }) {
  return (
    <NativeSelect
      label="Role"
      data={ROLES}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value as Role)}
    />
  );
}
