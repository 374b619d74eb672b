// Holds what a browser has to fetch to a limit: every file of the built console, compressed as nodes send it
// to a browser over TLS, which is how they are set up: by brotli. Beside it, what of that is fetched before anything
// is drawn.
//
//   node scripts/size.mjs dist/web [LIMIT IN KB]
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join, relative } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';

const [directory = 'dist/web', limit = '300'] = process.argv.slice(2);
const LIMIT_BYTES = Number(limit) * 1000;
// Fonts are compressed already.
const COMPRESSED = new Set(['.woff2']);
// Nobody fetches it but who wants to read it.
const LEFT_OUT = 'licences.txt';

function* files(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* files(path);
    else yield path;
  }
}

const sum = { gzip: 0, brotli: 0 };
// What the page names, itself and its font: the rest is fetched when it is wanted, or later.
const first = { gzip: 0, brotli: 0 };
const page = existsSync(join(directory, 'index.html'))
  ? readFileSync(join(directory, 'index.html'), 'utf8')
  : '';
for (const path of files(directory)) {
  // What `compress.mjs` has made is weighed anew.
  if (relative(directory, path) === LEFT_OUT || /\.(br|gz)$/.test(path)) continue;
  const bytes = readFileSync(path);
  const plain = COMPRESSED.has(extname(path));
  const gzip = plain ? bytes.length : gzipSync(bytes, { level: 9 }).length;
  const brotli = plain ? bytes.length : brotliCompressSync(bytes).length;
  const name = relative(directory, path);
  const isFirst = name === 'index.html' || page.includes(`"/${name}"`) || plain;
  for (const of of isFirst ? [sum, first] : [sum]) {
    of.gzip += gzip;
    of.brotli += brotli;
  }
  console.log(`${name}: ${kb(bytes.length)}, gzip ${kb(gzip)}, brotli ${kb(brotli)}`);
}
console.log(`first: gzip ${kb(first.gzip)}, brotli ${kb(first.brotli)}`);
console.log(`all: gzip ${kb(sum.gzip)}, brotli ${kb(sum.brotli)}, of ${kb(LIMIT_BYTES)}`);
if (sum.gzip === 0) {
  console.error(`error: there is nothing in ${directory}`);
  process.exit(1);
}
// Without TLS browsers take gzip only, which is a sixth more.
if (sum.brotli > LIMIT_BYTES) {
  console.error('error: the console is larger than it may be');
  process.exit(1);
}

function kb(bytes) {
  return `${(bytes / 1000).toFixed(1)} kB`;
}
