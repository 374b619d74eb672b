import { Button, type ButtonProps } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { ComponentPropsWithoutRef } from 'react';
import { sessionQuery } from '../api/queries';
import type { Role } from '../api/types';
import { Explained } from './basic';

/** Each role may what those before it may. */
const RANKS: Role[] = ['viewer', 'operator', 'administrator'];
const WHO: Record<string, string> = {
  operator: 'an operator or an administrator',
  administrator: 'an administrator',
};

/** Why somebody of a role may not do what takes another; null if it may be asked for: the API has the last word. */
export function refusal(role: Role | undefined, takes: Role): string | null {
  // Who that is, or what it may, is not known here.
  if (role === undefined || !RANKS.includes(role)) return null;
  if (RANKS.indexOf(role) >= RANKS.indexOf(takes)) return null;
  return `This takes ${WHO[takes]}. You are logged in as ${role}.`;
}

type Props = ButtonProps &
  Omit<ComponentPropsWithoutRef<'button'>, keyof ButtonProps> & {
    /** The least role that may do what it orders, as in `crates/api/src/router/permissions.rs`. */
    takes: Role;
    /** Why it cannot be ordered as things are, if it cannot. */
    unless?: string | null;
  };

/** A button that orders something: who may not order it sees who may, and where it cannot be ordered, why not. */
export function RoleButton({ takes, unless = null, ...props }: Props) {
  const why = refusal(useQuery(sessionQuery).data?.role, takes) ?? unless;
  if (why === null) return <Button {...props} />;
  return (
    <Explained tip={why} className="refused">
      <Button {...props} disabled />
    </Explained>
  );
}
