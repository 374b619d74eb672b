// Puts the compressed forms of each file beside it, so that nodes need not compress anything.
//
//   node scripts/compress.mjs dist/web
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';

const [directory = 'dist/web'] = process.argv.slice(2);

for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
  // Fonts are compressed already.
  if (!entry.isFile() || /\.(woff2|br|gz)$/.test(entry.name)) continue;
  const path = join(entry.parentPath, entry.name);
  const bytes = readFileSync(path);
  writeFileSync(`${path}.br`, brotliCompressSync(bytes));
  writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }));
}
