import { ask, client, DoneInPart, Problem, told } from './client';

const UNKNOWN = 'urn:holdfast:problem:no-such-initiator';

/**
 * Makes a volume for this initiator, and for nobody else who is not allowed.
 *
 * One that is not on record is put there first, and only then: of one that is, that would drop its secret. `header`
 * says what the volume has to be for that.
 */
export async function allow(
  name: string,
  initiator: string,
  header: { 'If-Match'?: string } = {},
): Promise<void> {
  const order = () =>
    ask(
      client.PATCH('/api/v1/volumes/{name}/access', {
        params: { path: { name }, header },
        body: { allow: initiator },
      }),
    );
  try {
    await order();
  } catch (error) {
    if (!(error instanceof Problem) || error.kind !== UNKNOWN) throw error;
    await record(initiator);
    await order();
  }
}

/** Puts an initiator on record, unless somebody else has done so meanwhile, maybe with a secret. */
async function record(name: string): Promise<void> {
  const params = { path: { name } };
  const headers = { 'If-None-Match': '*' };
  try {
    await ask(client.PUT('/api/v1/initiators/{name}', { params, headers, body: {} }));
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 412) throw error;
  }
}

/** The same for several, of a volume that was just made. */
export async function allowAll(name: string, initiators: string[]): Promise<void> {
  let allowed = 0;
  for (const initiator of initiators) {
    try {
      await allow(name, initiator);
    } catch (error) {
      const { detail, hint, status } = told(error);
      const left = initiators.slice(allowed).join(', ');
      throw new DoneInPart({
        title:
          allowed === 0
            ? `${name} was made, and is for everybody still`
            : `${name} was made, but not for all of its hosts`,
        detail: `${left}: ${detail}`,
        hint: hint ?? 'create it again: what is done already stays as it is',
        status,
      });
    }
    allowed += 1;
  }
}
