import {
  type AnchorHTMLAttributes,
  createContext,
  type MouseEvent,
  type ReactNode,
  useContext,
  useEffect,
  useSyncExternalStore,
} from 'react';

/** Client-side routes: the path is the state, and every view has an address that can be sent to a colleague. */

const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  window.addEventListener('popstate', listener);
  return () => {
    listeners.delete(listener);
    window.removeEventListener('popstate', listener);
  };
}

export function navigate(to: string, { replace = false } = {}): void {
  if (to === window.location.pathname) return;
  if (replace) window.history.replaceState(null, '', to);
  else window.history.pushState(null, '', to);
  window.scrollTo(0, 0);
  for (const listener of listeners) listener();
}

/** The parts of the path, decoded; one that cannot be decoded is taken as it is. */
export function split(path: string): string[] {
  return path
    .split('/')
    .filter((part) => part !== '')
    .map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part;
      }
    });
}

/** The address of a view: its parts, encoded. */
export function address(...parts: string[]): string {
  return `/${parts.map(encodeURIComponent).join('/')}`;
}

const PathContext = createContext('/');

export function Router({ children }: { children: ReactNode }) {
  const path = useSyncExternalStore(subscribe, () => window.location.pathname);
  return <PathContext value={path}>{children}</PathContext>;
}

export function usePath(): string {
  return useContext(PathContext);
}

/** The document's title goes with the view. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Holdfast`;
  }, [title]);
}

type LinkProps = AnchorHTMLAttributes<HTMLAnchorElement> & { to: string };

/** A link within the console. With a modifier key, or another button, it is the browser's. */
export function Link({ to, onClick, children, ...rest }: LinkProps) {
  const go = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    const plain =
      event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (event.defaultPrevented || !plain) return;
    event.preventDefault();
    navigate(to);
  };
  return (
    <a href={to} onClick={go} {...rest}>
      {children}
    </a>
  );
}
