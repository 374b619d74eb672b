import { Button, type ButtonProps } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { ComponentPropsWithoutRef, ReactNode } from 'react';
import { sessionQuery } from '../api/queries';
import type { Role } from '../api/types';
import { Empty, Explained, PageHead } from './basic';

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

/** Why whoever looks may not do what takes such a role; null if it may be asked for. */
export function useRefusal(takes: Role): string | null {
  return refusal(useQuery(sessionQuery).data?.role, takes);
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
  const why = useRefusal(takes) ?? unless;
  if (why === null) return <Button {...props} />;
  return (
    <Explained tip={why} className="refused">
      <Button {...props} disabled />
    </Explained>
  );
}

/** A page for those only who may what takes such a role; others are told so, and nothing is asked for them. */
export function RolePage({
  takes,
  title,
  above,
  children,
}: {
  takes: Role;
  title: string;
  above?: ReactNode;
  children: ReactNode;
}) {
  const why = useRefusal(takes);
  if (why === null) return children;
  return (
    <>
      <PageHead title={title} above={above} />
      <div className="panel">
        <Empty title="This page is not for your role">{why}</Empty>
      </div>
    </>
  );
}
