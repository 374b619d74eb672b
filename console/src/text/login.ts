import { navigate } from '../router';

/** The words that a node sends a browser back with from a provider of identities, as sentences. */
const FAULTS: Record<string, string> = {
  again: 'The login took too long, or began in another window or browser. Try again.',
  denied: 'The provider did not let you in.',
  'no-role':
    'The provider knows you, but nobody has given you a role here. Ask an administrator of this cluster.',
  provider:
    'The provider does not answer as it should. Try again; if that does not help, the log of this node says why.',
  untrusted:
    'What the provider said is not believed here. Try again; if that does not help, the log of this node says why.',
  busy: 'Too many log in at this moment. Try again.',
  unavailable: 'This node cannot begin a session, because its metadata does not answer. Try again.',
};

/** Why a login at a provider has failed, by the page's query; nothing of the query itself is shown. */
export function loginFault(search: string): string | undefined {
  const word = new URLSearchParams(search).get('login');
  if (word === null) return undefined;
  return Object.hasOwn(FAULTS, word) ? FAULTS[word] : 'The login has failed. Try again.';
}

const PLACE = 'holdfast-place';

/** Somebody leaves for the provider, and wants to be here afterwards. */
export function rememberPlace(): void {
  sessionStorage.setItem(PLACE, window.location.pathname);
}

/** Back where somebody wanted to be before the provider was asked. */
export function returnToPlace(): void {
  const place = sessionStorage.getItem(PLACE);
  sessionStorage.removeItem(PLACE);
  if (place?.startsWith('/') && window.location.pathname === '/') {
    navigate(place, { replace: true });
  }
}
