// A browser, its pages, and what is wrong with them.
//
// CHROMIUM names the browser, HOLDFAST_SHOTS a directory for pictures.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { AxeResults } from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const SHOTS = process.env.HOLDFAST_SHOTS;

/** A browser that trusts servers with these keys: the SHA-256 of each, in Base64. */
export function launch(trusted: string[] = []): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', `--ignore-certificate-errors-spki-list=${trusted.join(',')}`],
  });
}

/** A page of a context of its own; what goes wrong in it is put among the complaints. */
export async function openPage(
  browser: Browser,
  complaints: string[],
  options: BrowserContextOptions,
): Promise<Page> {
  const context = await browser.newContext({ reducedMotion: 'reduce', ...options });
  context.setDefaultTimeout(15_000);
  const made = await context.newPage();
  made.on('pageerror', (error) => complaints.push(`${made.url()}: ${error.message}`));
  made.on('console', (message) => {
    // That a node does not answer, or keeps no history, is told by the browser, too; it is no fault of the page.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) {
      complaints.push(`${made.url()}: ${message.text()}`);
    }
  });
  return made;
}

/** What axe finds that keeps somebody out. */
export async function faults(here: Page): Promise<string[]> {
  // As a value, for a script element would be against the page's policy.
  await here.evaluate(AXE);
  const results = (await here.evaluate('axe.run()')) as AxeResults;
  return results.violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`),
    );
}

/** The same in dark and in light, which it is left in. */
export async function faultsInBoth(here: Page): Promise<string[]> {
  const found: string[] = [];
  for (const colorScheme of ['dark', 'light'] as const) {
    await here.emulateMedia({ colorScheme });
    for (const fault of await faults(here)) found.push(`${colorScheme}: ${fault}`);
  }
  return found;
}

export async function shoot(here: Page, name: string, whole = false): Promise<void> {
  if (SHOTS) await here.screenshot({ path: `${SHOTS}/${name}.png`, fullPage: whole });
}
