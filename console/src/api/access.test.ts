import { afterEach, expect, test, vi } from 'vitest';
import { allow, allowAll } from './access';

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

/** A node that knows these initiators, and refuses the others if they are `bad`. */
function node(known: string[]) {
  const asked: string[] = [];
  const there = new Set(known);
  vi.stubGlobal('fetch', async (request: Request) => {
    const body = await request.json();
    asked.push(`${request.method} ${new URL(request.url).pathname} ${JSON.stringify(body)}`);
    if (request.method === 'PUT') {
      there.add(decodeURIComponent(request.url.split('/').at(-1) ?? ''));
      return Response.json({});
    }
    if (body.allow === 'bad') return Response.json(refused, { status: 409 });
    return there.has(body.allow) ? Response.json({}) : Response.json(unknown, { status: 404 });
  });
  return asked;
}

afterEach(() => vi.unstubAllGlobals());

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

test('a volume that is open because something failed is said to be', async () => {
  node(['iqn.a']);
  await expect(allowAll('data', ['bad', 'iqn.a'])).rejects.toMatchObject({
    title: 'data was made, and is for everybody still',
    detail: 'bad, iqn.a: not now',
  });
  await expect(allowAll('data', ['iqn.a', 'bad'])).rejects.toMatchObject({
    title: 'data was made, but not for all of its hosts',
  });
});
