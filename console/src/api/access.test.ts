import { afterEach, expect, test, vi } from 'vitest';
import { allow, allowAll } from './access';
import { DoneInPart } from './client';

const unknown = {
  type: 'urn:holdfast:problem:no-such-initiator',
  title: 'no such initiator',
  detail: 'x',
  status: 404,
};
const refused = {
  type: 'urn:holdfast:problem:refused',
  title: 'refused',
  detail: 'not now',
  status: 409,
};

const changed = {
  type: 'urn:holdfast:problem:precondition-failed',
  title: 'changed meanwhile',
  detail: 'it is there already',
  status: 412,
};

/** Initiators that were on record, and have no secret any more. */
let secretless: string[] = [];

/** A node that knows these initiators, and refuses the others if they are `bad`; `late` ones are put on record by somebody else. */
function node(known: string[], late: string[] = []) {
  const asked: string[] = [];
  const there = new Set(known);
  vi.stubGlobal('fetch', async (request: Request) => {
    const body = await request.json();
    asked.push(`${request.method} ${new URL(request.url).pathname} ${JSON.stringify(body)}`);
    if (request.method === 'PUT') {
      for (const name of late) there.add(name);
      const name = decodeURIComponent(request.url.split('/').at(-1) ?? '');
      if (there.has(name) && request.headers.get('If-None-Match') === '*') {
        return Response.json(changed, { status: 412 });
      }
      if (there.has(name)) secretless.push(name);
      there.add(name);
      return Response.json({});
    }
    if (body.allow === 'bad') return Response.json(refused, { status: 409 });
    return there.has(body.allow) ? Response.json({}) : Response.json(unknown, { status: 404 });
  });
  return asked;
}

afterEach(() => {
  vi.unstubAllGlobals();
  secretless = [];
});

test('an initiator that is on record keeps its secret', async () => {
  const asked = node(['iqn.a']);
  await allow('data', 'iqn.a');
  expect(asked).toEqual(['PATCH /api/v1/volumes/data/access {"allow":"iqn.a"}']);
});

test('one that is not on record is put there', async () => {
  const asked = node([]);
  await allow('data', 'iqn.a');
  expect(asked.map((line) => line.split(' ')[0])).toEqual(['PATCH', 'PUT', 'PATCH']);
});

test('one that somebody else puts there meanwhile keeps its secret', async () => {
  const asked = node([], ['iqn.a']);
  await allow('data', 'iqn.a');
  expect(asked.map((line) => line.split(' ')[0])).toEqual(['PATCH', 'PUT', 'PATCH']);
  expect(secretless).toEqual([]);
});

test('a volume that is open because something failed is said to be', async () => {
  node(['iqn.a']);
  await expect(allowAll('data', ['bad', 'iqn.a'])).rejects.toMatchObject({
    title: 'data was made, and is for everybody still',
    detail: 'bad, iqn.a: not now',
  });
  // Of the volume itself nothing was refused.
  await expect(allowAll('data', ['bad'])).rejects.toBeInstanceOf(DoneInPart);
  await expect(allowAll('data', ['iqn.a', 'bad'])).rejects.toMatchObject({
    title: 'data was made, but not for all of its hosts',
  });
});
