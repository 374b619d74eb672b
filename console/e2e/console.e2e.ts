// The console in a browser, over a demo of three nodes. The tests are one story, told in order.
//
// HOLDFAST_BIN names the program, CHROMIUM the browser, HOLDFAST_SHOTS a directory for pictures of every page.
import { spawn } from 'node:child_process';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { faults, faultsInBoth, launch, openPage, shoot } from './browser.ts';
import { Cluster } from './cluster.ts';
import { crowd, VOLUMES } from './crowd.ts';

/** How soon its first page has to be of use. */
const USABLE_MS = 1_000;

/** For how long the browser may do one thing, and hear nobody meanwhile, with a thousand volumes. */
const DEAF_MS = 200;

const PAGES: Record<string, string> = {
  overview: '/',
  volumes: '/volumes',
  'volume-create': '/volumes/+new',
  'volume-load': '/volumes/demo/load',
  'volume-copies': '/volumes/demo/copies',
  'volume-access': '/volumes/demo/access',
  'volume-paths': '/volumes/demo/paths',
  'volume-attach': '/volumes/demo/attach',
  'volume-stalls': '/volumes/demo/stalls',
  'volume-scrub': '/volumes/demo/scrub',
  nodes: '/nodes',
  node: '/nodes/n1',
  tasks: '/tasks',
  hosts: '/hosts',
  host: '/hosts/iqn.2026-11.com.example:host1',
  stalls: '/stalls',
  settings: '/settings',
  nothing: '/no/such/page',
};

let cluster: Cluster;
let browser: Browser;
let page: Page;
/** What went wrong in any page. */
const complaints: string[] = [];

beforeAll(async () => {
  cluster = await Cluster.start();
  browser = await launch();
  page = await open('light');
});

afterAll(async () => {
  await browser?.close();
  await cluster?.stop();
});

const open = (colorScheme: 'light' | 'dark', width = 1280, height = 800) =>
  openPage(browser, complaints, { colorScheme, viewport: { width, height } });

const n1 = () => cluster.node('n1').api;

test('every node serves it, under a policy that lets nothing else in', async () => {
  for (const { api } of [...cluster.file().nodes, cluster.file()]) {
    const response = await fetch(api);
    expect(response.headers.get('content-type')).toContain('text/html');
    expect(response.headers.get('content-security-policy')).toContain("default-src 'self'");
    expect(await response.text()).toContain('id="root"');
  }
});

test('the overview is of use within a second', async () => {
  // The second time, as most are: the browser has the files, as it may keep them.
  await page.goto(n1());
  await page.getByRole('heading', { level: 1 }).waitFor();
  const begun = Date.now();
  await page.goto(n1());
  await page.getByRole('heading', { name: /served, with every copy in place/ }).waitFor();
  const took = Date.now() - begun;
  console.log(`the overview was of use after ${took} ms`);
  expect(took).toBeLessThan(USABLE_MS);
});

test('what a number means is told to those who point at it, and to those who come by keyboard', async () => {
  await page.goto(n1());
  const tip = page.getByRole('tooltip');
  await page.getByText('promised').hover();
  await tip.getByText('What the volumes would fill').waitFor();
  await page.mouse.move(0, 0);
  await tip.waitFor({ state: 'detached' });
  await page.locator('.figure-name').first().focus();
  await tip.getByText('When every volume has all its copies').waitFor();
  await page.keyboard.press('Escape');
  await tip.waitFor({ state: 'detached' });
});

test('a volume is made by the wizard, and is in the list', async () => {
  await page.getByRole('link', { name: 'Volumes', exact: true }).click();
  await page.getByRole('button', { name: 'Create volume' }).click();
  const next = page.getByRole('button', { name: 'Next' });
  await next.click();
  await page.getByText('a name is needed').waitFor();
  expect(await faultsInBoth(page), 'name and size').toEqual([]);
  await shoot(page, 'wizard-fault-light');
  await page.getByLabel('Name').fill('sql-data');
  await page.getByLabel('Size').fill('1 GiB');
  await next.click();
  await page.getByRole('radio', { name: /Three copies/ }).click();
  const four = page.getByRole('radio', { name: /Four copies/ });
  expect(await four.isDisabled()).toBe(true);
  expect(await faultsInBoth(page), 'protection').toEqual([]);
  await next.click();
  await page.getByLabel('These hosts only').check();
  await page.getByRole('combobox', { name: 'Initiators' }).fill('iqn.2026-11.com.example:host1');
  await page.keyboard.press('Enter');
  expect(await faultsInBoth(page), 'hosts').toEqual([]);
  await shoot(page, 'wizard-hosts-light');
  await next.click();
  await page.getByText('iqn.2026-11.io.holdfast:sql-data').waitFor();
  await page.getByText(cluster.node('n3').portal).waitFor();
  expect(await faultsInBoth(page), 'check').toEqual([]);
  await shoot(page, 'wizard-check-light');
  await page.getByRole('button', { name: 'Create volume' }).click();
  await page.getByRole('heading', { name: 'Volume sql-data was made' }).waitFor();
  await page.getByText('iqn.2026-11.io.holdfast:sql-data').first().waitFor();
  await shoot(page, 'wizard-made-light');
  await page.getByRole('link', { name: 'Volumes', exact: true }).first().click();
  const row = page.getByRole('row', { name: /sql-data/ });
  await row.getByText('mirror3').waitFor();
  const volume = await (await fetch(`${n1()}/api/v1/volumes/sql-data`)).json();
  expect(volume.access).toEqual({ open: false, initiators: ['iqn.2026-11.com.example:host1'] });
});

test('a page leads to what the book says of it, which the node serves', async () => {
  const help = page.getByRole('link', { name: /^Help/ });
  expect(await help.getAttribute('href')).toBe('/docs/planning.html');
  const book = await openPage(browser, complaints, {});
  await book.goto(`${n1()}/docs/planning.html`);
  await book.getByRole('heading', { name: 'Planning', level: 1 }).waitFor();
  expect(await faults(book)).toEqual([]);
  await shoot(book, 'book-light');
  await book.getByRole('link', { name: 'Performance', exact: true }).click();
  await book.getByRole('heading', { name: 'Performance', level: 1 }).waitFor();
  await book.context().close();
});

test('an initiator reads, and its IOPS and its path are seen', async () => {
  const initiator = 'iqn.2026-11.com.example:reader';
  const volumes = await (await fetch(`${n1()}/api/v1/volumes`)).json();
  const { target } = volumes.volumes.find((one: { name: string }) => one.name === 'demo');
  const { portal } = cluster.node('n1');
  // libiscsi's; it reads until it is told to end.
  const url = `iscsi://${portal}/${target}/0`;
  const reading = spawn('iscsi-perf', ['-i', initiator, '-m', '4', '-b', '8', '-r', url], {
    stdio: 'ignore',
  });
  try {
    await page.goto(`${n1()}/volumes`);
    const busy = page
      .getByRole('row', { name: /demo/ })
      .getByRole('cell', { name: /^[1-9].* [KM]iB\/s$/ });
    await busy.waitFor();
    await shoot(page, 'volumes-busy-light');
    await page.goto(`${n1()}/volumes/demo/paths`);
    const path = page.getByRole('row', { name: new RegExp(initiator) });
    await path.getByText('active, optimized').waitFor();
    await path.getByRole('link', { name: 'n1' }).waitFor();
    await page.getByText(`${initiator} is logged in at n1 only`).waitFor();
    await shoot(page, 'volume-paths-busy-light');
    await path.getByRole('link', { name: initiator }).click();
    await page.getByText('not on record').waitFor();
    await page.getByRole('row', { name: /demo/ }).waitFor();
  } finally {
    reading.kill('SIGINT');
  }
  await page.goto(`${n1()}/volumes/demo/paths`);
  await page.getByText('No host is logged in').waitFor();
});

test('a thousand volumes on 64 nodes are shown, sorted and searched without a stutter', async () => {
  const here = await open('light');
  await crowd(here);
  // What a page does while it is opened is not counted: it has nobody to hear yet.
  const deaf = () =>
    here.evaluate(() => {
      const spans: number[] = [];
      new PerformanceObserver((list) => {
        for (const { duration } of list.getEntries()) spans.push(duration);
      }).observe({ type: 'longtask' });
      return new Promise<number>((resolve) =>
        setTimeout(() => resolve(Math.max(0, ...spans)), 4_000),
      );
    });
  const longest: Record<string, number> = {};
  await here.goto(`${n1()}/volumes`);
  await here.getByText(`1 to 50 of ${VOLUMES}`).waitFor();
  const used = async () => {
    await here.getByRole('button', { name: 'IOPS' }).click();
    await here.getByRole('button', { name: 'Next' }).click();
    await here.getByText(`51 to 100 of ${VOLUMES}`).waitFor();
    await here.getByLabel('Search volumes').pressSequentially('v01', { delay: 100 });
    await here.getByText('1 to 50 of 100', { exact: true }).waitFor();
  };
  [longest.volumes] = await Promise.all([deaf(), used()]);
  await shoot(here, 'volumes-thousand');
  await here.goto(`${n1()}/nodes`);
  await here.getByRole('link', { name: /n0064/ }).first().waitFor();
  longest.nodes = await deaf();
  await shoot(here, 'nodes-64', true);
  await here.goto(n1());
  await here.getByRole('heading', { level: 1 }).waitFor();
  longest.overview = await deaf();
  console.log('the browser was deaf for so many ms at most:', longest);
  for (const [name, span] of Object.entries(longest)) expect(span, name).toBeLessThan(DEAF_MS);
  await here.context().close();
});

test('what is refused is told with its hint, where it was ordered', async () => {
  await page.goto(`${n1()}/nodes/n1`);
  await page.getByRole('button', { name: 'Add device' }).click();
  await page.getByLabel('Path').fill('/no/such/device');
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Add device' }).click();
  await dialog.getByRole('alert').waitFor();
  expect(await faultsInBoth(page)).toEqual([]);
  await shoot(page, 'refused-light');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
});

test('settings are changed, and a volume grows and goes', async () => {
  await page.goto(`${n1()}/settings`);
  await page.getByLabel('Repair delay').fill('30 min');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('The settings are in effect').waitFor();
  const settings = await (await fetch(`${n1()}/api/v1/settings`)).json();
  expect(settings.repair_delay_seconds).toBe(1800);
  expect(settings.scrub_rate).toBe(64 * 1024 ** 2);

  await page.goto(`${n1()}/volumes/sql-data/copies`);
  await page.getByRole('button', { name: 'Grow' }).click();
  await page.getByLabel('New size').fill('2 GiB');
  await page.getByRole('dialog').getByRole('button', { name: 'Grow' }).click();
  await page.getByText('sql-data has 2 GiB now').waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  const remove = page.getByRole('dialog').getByRole('button', { name: 'Delete volume' });
  expect(await remove.isDisabled()).toBe(true);
  await page.getByRole('dialog').getByRole('textbox').fill('sql-data');
  await shoot(page, 'delete-light');
  await remove.click();
  await page.getByText('Volume sql-data was deleted').waitFor();
});

test('no page has a serious fault for those who see or move otherwise', async () => {
  const found: string[] = [];
  for (const scheme of ['light', 'dark'] as const) {
    const here = await open(scheme);
    for (const [name, path] of Object.entries(PAGES)) {
      await here.goto(n1() + path);
      await here.waitForTimeout(700);
      await shoot(here, `${name}-${scheme}`);
      for (const fault of await faults(here)) found.push(`${path}, ${scheme}: ${fault}`);
    }
    await here.setViewportSize({ width: 390, height: 844 });
    await here.goto(n1());
    await here.waitForTimeout(700);
    await shoot(here, `phone-${scheme}`, true);
    for (const fault of await faults(here)) found.push(`phone, ${scheme}: ${fault}`);
    const wide = await here.evaluate(() => document.documentElement.scrollWidth);
    expect(wide, 'nothing is wider than a phone').toBeLessThanOrEqual(390);
    await here.context().close();
  }
  expect(found).toEqual([]);
});

test('when the node that served it is gone, it says so and leads to the others', async () => {
  await page.goto(`${n1()}/volumes`);
  await page.getByRole('row', { name: /demo/ }).waitFor();
  cluster.kill('n1');
  const lost = page.getByRole('alert').filter({ hasText: 'does not answer' }).first();
  await lost.waitFor({ timeout: 5_000 });
  // What was known stays.
  await page.getByRole('row', { name: /demo/ }).waitFor();
  await shoot(page, 'lost-light');
  await lost.getByRole('link', { name: 'n2' }).click();
  await page.waitForURL(`${cluster.node('n2').api}/volumes`);
  await page.getByRole('row', { name: /demo/ }).waitFor();
});

test('nothing was blocked, and nothing failed, in all of that', () => {
  expect(complaints).toEqual([]);
});
