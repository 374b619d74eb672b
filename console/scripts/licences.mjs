// Checks the licences of what is bundled, and writes them, as they want it, beside the built console.
//
//   node scripts/licences.mjs [dist/web]
//
// What only builds and tests the console is not shipped, and not looked at.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Licences that ask for no more than a notice; OFL is for fonts. */
const ALLOWED = new Set([
  'MIT',
  'ISC',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'Apache-2.0',
  '0BSD',
  'OFL-1.1',
]);

const [output] = process.argv.slice(2);
const lock = JSON.parse(readFileSync('package-lock.json', 'utf8'));
const notices = [];
const refused = [];

for (const [path, entry] of Object.entries(lock.packages)) {
  if (path === '' || entry.dev || !existsSync(path)) continue;
  const { name, version, license } = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'));
  if (!allowed(license)) refused.push(`${name} ${version}: ${license ?? 'states no licence'}`);
  const file = readdirSync(path).find((entry) => /^licen[cs]e(\.(md|txt))?$/i.test(entry));
  const text = file ? readFileSync(join(path, file), 'utf8').trim() : `Licence: ${license}`;
  notices.push({ head: `${name} ${version} (${license})`, text });
}

if (notices.length === 0) {
  console.error('error: no package is installed; `npm ci` does that');
  process.exit(1);
}
for (const line of refused) console.error(`error: ${line} is not on the list`);
if (refused.length > 0) process.exit(1);

if (output === undefined) {
  for (const { head } of notices) console.log(head);
} else {
  const text = notices
    .map(({ head, text }) => `${head}\n\n${text}\n`)
    .join(`\n${'-'.repeat(72)}\n\n`);
  writeFileSync(
    join(output, 'licences.txt'),
    `What this console is made of, beside Holdfast's own code.\n\n${text}`,
  );
  console.log(`licences: ${notices.length} packages pass`);
}

/** Of a choice one has to be on the list. */
function allowed(expression = '') {
  return expression
    .replace(/[()]/g, '')
    .split(' OR ')
    .some((one) => ALLOWED.has(one.trim()));
}
