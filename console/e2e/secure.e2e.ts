// The console of a secure demo: who is let in, what that one sees, and what becomes of a volume whose copy dies. The tests are one
// story, told in order.
import { type ChildProcess, spawn } from 'node:child_process';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { faults, faultsInBoth, launch, openPage, shoot } from './browser.ts';
import { Cluster, until } from './cluster.ts';

/** How soon the console has to tell the truth. */
const TRUTH_MS = 2_000;
/** How soon its first page is of use at the first visit: a second on a machine that has nothing else to do, and no more than this on one that has. */
const FIRST_VISIT_MS = 5_000;

/** The volume that is made, what is written to it while a node is down, and who does that. */
const VOLUME = 'sql-data';
const WRITTEN_MIB = 128;
const HOST = 'iqn.2026-11.com.example:host1';

let cluster: Cluster;
let browser: Browser;
let page: Page;
/** The host's program that reads all the time. */
let reading: ChildProcess | undefined;
const complaints: string[] = [];

beforeAll(async () => {
  cluster = await Cluster.start({ secure: true });
  browser = await launch(cluster.keys());
  page = await open('light');
});

afterAll(async () => {
  reading?.kill('SIGINT');
  await browser?.close();
  await cluster?.stop();
});

const open = (colorScheme: 'light' | 'dark') =>
  openPage(browser, complaints, { colorScheme, viewport: { width: 1280, height: 800 } });

const api = (name: string) => cluster.node(name).api;

async function logIn(here: Page, user: string, password: string): Promise<void> {
  await here.getByLabel('User').fill(user);
  await here.getByRole('textbox', { name: 'Password' }).fill(password);
  await here.getByRole('button', { name: 'Log in' }).click();
}

const overview = (here: Page) =>
  here.getByRole('heading', { name: /served, with every copy in place/ }).waitFor();

const wholeAgain = { name: /Both volumes are served, with every copy/ };

/** Has qemu's tool do something with the volume, as the host, by the portal of a node; gives what it says. */
async function io(node: string, command: string): Promise<string> {
  const { portal } = cluster.node(node);
  const image = `driver=raw,file.driver=iscsi,file.transport=tcp,file.portal=${portal},file.target=${target()},file.lun=0`;
  const tool = spawn('qemu-io', [
    ...['--image-opts', `${image},file.initiator-name=${HOST}`],
    ...['-c', command],
  ]);
  let said = '';
  for (const stream of [tool.stdout, tool.stderr]) {
    stream.on('data', (piece) => {
      said += piece;
    });
  }
  await new Promise((resolve) => tool.once('close', resolve));
  return said;
}

const target = () => `iqn.2026-11.io.holdfast:${VOLUME}`;

test('who has not logged in sees nothing but the way in', async () => {
  await page.goto(`${api('n1')}/volumes`);
  await page.getByRole('button', { name: 'Log in' }).waitFor();
  expect(await page.getByRole('link', { name: 'Volumes' }).count()).toBe(0);
  expect(await faultsInBoth(page)).toEqual([]);
  await shoot(page, 'login-light');
  await logIn(page, 'admin', 'not the password');
  await page.getByRole('alert').getByText('the name or the password is wrong').waitFor();
  await shoot(page, 'login-refused-light');
});

test('who logs in goes on where he wanted to, and is known at every node', async () => {
  await logIn(page, 'admin', cluster.password());
  await page.getByRole('row', { name: /demo/ }).waitFor();
  await page.getByText('administrator').waitFor();
  await page.goto(api('n2'));
  await overview(page);
  // The cookie is no business of scripts.
  expect(await page.evaluate('document.cookie')).toBe('');
});

test('the overview is of use soon at the first visit', async () => {
  // The browser has none of the files yet, and nothing of the connection; whoever comes has logged in.
  const first = await openPage(browser, complaints, {
    storageState: await page.context().storageState(),
    viewport: { width: 1280, height: 800 },
  });
  const begun = Date.now();
  await first.goto(api('n3'));
  await overview(first);
  const took = Date.now() - begun;
  console.log(`the overview was of use after ${took} ms, at the first visit`);
  expect(took).toBeLessThan(FIRST_VISIT_MS);
  await first.context().close();
});

test('a volume is made by the wizard, for one host', async () => {
  await page.goto(`${api('n1')}/volumes`);
  await page.getByRole('button', { name: 'Create volume' }).click();
  const next = page.getByRole('button', { name: 'Next' });
  await page.getByLabel('Name').fill(VOLUME);
  await page.getByLabel('Size').fill('1 GiB');
  await next.click();
  await page.getByRole('radio', { name: /Three copies/ }).click();
  await next.click();
  await page.getByLabel('These hosts only').check();
  await page.getByRole('combobox', { name: 'Initiators' }).fill(HOST);
  await page.keyboard.press('Enter');
  await next.click();
  await page.getByRole('button', { name: 'Create volume' }).click();
  await page.getByRole('heading', { name: `Volume ${VOLUME} was made` }).waitFor();
  await page.getByText(target()).first().waitFor();
});

test('that volume is attached, and its IOPS move on its page', async () => {
  const { portal } = cluster.node('n1');
  // libiscsi's; it reads until it is told to end.
  const url = `iscsi://${portal}/${target()}/0`;
  reading = spawn('iscsi-perf', ['-i', HOST, '-m', '1', '-b', '8', '-r', url], { stdio: 'ignore' });
  await page.goto(`${api('n1')}/volumes/${VOLUME}/load`);
  const chart = page.getByRole('figure').filter({ hasText: 'IOPS' });
  const reads = chart.locator('.chart-value', { hasText: 'reads' }).locator('b');
  const seen = new Set<string>();
  await until('its IOPS to move', 30_000, async () => {
    const told = await reads.textContent();
    if (told && /^[1-9]/.test(told)) seen.add(told);
    return seen.size > 2;
  });
  console.log('IOPS on the page of the volume:', [...seen].join(', '));
  const legends = page.locator('.chart-legend');
  expect(await legends.count()).toBeGreaterThan(2);
  const wrapped = await legends.evaluateAll((all) =>
    all
      .filter(
        ({ children }) =>
          new Set([...children].map((one) => one.getBoundingClientRect().top)).size > 1,
      )
      .map((one) => one.textContent),
  );
  expect(wrapped, 'legends that take two lines').toEqual([]);
  await page.getByText('1 session').waitFor();
  await shoot(page, 'volume-load-busy-light');
});

test('within two seconds of its death a node is down in the console', async () => {
  await page.goto(api('n1'));
  await page.getByRole('heading', wholeAgain).waitFor();
  const begun = Date.now();
  cluster.kill('n3');
  await page.getByRole('heading', { name: /lacks? copies.*one node is not up/ }).waitFor();
  await page.getByText('2 of 3').waitFor();
  const took = Date.now() - begun;
  console.log(`a node's death was told after ${took} ms`);
  expect(took).toBeLessThan(TRUTH_MS);
  await page.getByText('What you may do').first().click();
  await shoot(page, 'killed-light');
  for (const width of [1280, 1440, 1599]) {
    await page.setViewportSize({ width, height: 800 });
    const wide = await page
      .locator('.figure-value')
      .evaluateAll((all) =>
        all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent),
      );
    expect(wide, `figures that run into the next one at ${width}`).toEqual([]);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
});

test('what is written meanwhile is brought to the node when it is back, and the end of that is seen', async () => {
  await page.goto(`${api('n1')}/volumes/${VOLUME}/copies`);
  await page
    .getByTitle(/: n3 (lacks|is away)/)
    .first()
    .waitFor();
  await page.getByText('Table', { exact: true }).click();
  const row = page.getByRole('row', { name: /^0/ });
  expect(await io('n1', `write -P 0x5a 0 ${WRITTEN_MIB}M`)).toContain(
    `wrote ${WRITTEN_MIB << 20}/`,
  );
  await row.getByText(/n3 lacks 12\d\sMiB/).waitFor();
  await shoot(page, 'volume-copies-lacking-light');
  const begun = Date.now();
  cluster.start('n3');
  const seen = new Set<string>();
  await until('the sync to end', 60_000, async () => {
    const told = (await row.textContent()) ?? '';
    const progress = told.match(/n3: ([0-9.]+\s[KMG]?i?B of [0-9.]+\s[KMG]iB)/)?.[1];
    if (progress && !seen.has(progress)) {
      seen.add(progress);
      if (seen.size === 2) await shoot(page, 'volume-copies-sync-light');
    }
    return /n1, n2, n3/.test(told);
  });
  console.log(
    `the sync ended after ${Date.now() - begun} ms; it was seen at`,
    [...seen].join(', '),
  );
  expect(seen.size, 'it was seen to go on').toBeGreaterThan(1);
  await page.getByText('healthy').first().waitFor();
  await page.goto(api('n1'));
  await page.getByRole('heading', wholeAgain).waitFor();
  reading?.kill('SIGINT');
  // By the node that was away.
  expect(await io('n3', `read -P 0x5a 0 ${WRITTEN_MIB}M`)).toContain(`read ${WRITTEN_MIB << 20}/`);
});

test('a user is made, and a token, which is told once', async () => {
  await page.getByRole('link', { name: 'Users', exact: true }).click();
  await page.getByRole('button', { name: 'Add user' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('bob');
  await dialog.getByRole('textbox', { name: 'Password' }).fill('short');
  await dialog.getByText('12 letters at least').nth(1).waitFor();
  await dialog.getByRole('textbox', { name: 'Password' }).fill('correct horse battery');
  await dialog.getByRole('button', { name: 'Add user' }).click();
  await page.getByRole('row', { name: /bob/ }).getByText('viewer').waitFor();
  await page.getByRole('button', { name: 'Make token' }).click();
  await dialog.getByLabel('What it is for').fill('Prometheus');
  await dialog.getByLabel('For', { exact: true }).selectOption('metrics');
  await dialog.getByRole('button', { name: 'Make token' }).click();
  const token = await dialog.getByText(/^hft_[0-9a-f]{16}_[0-9a-f]{64}$/).textContent();
  await shoot(page, 'token-light');
  await dialog.getByRole('button', { name: 'I have it' }).click();
  await page.getByRole('row', { name: /Prometheus/ }).waitFor();
  const secret = token?.split('_')[2] ?? '';
  expect(secret).toHaveLength(64);
  expect(await page.content()).not.toContain(secret);
});

test('pages of users and of what was done are right in light and dark', async () => {
  for (const scheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const name of ['users', 'audit']) {
      await page.goto(`${api('n1')}/${name}`);
      await page.getByRole('row').nth(1).waitFor();
      expect(await faults(page), `${name}, ${scheme}`).toEqual([]);
      await shoot(page, `${name}-${scheme}`);
    }
  }
  await page.emulateMedia({ colorScheme: 'light' });
  const made = page.getByRole('row', { name: /POST \/api\/v1\/users/ });
  await made.getByText('user admin').waitFor();
  const failed = page.getByRole('row', { name: /unauthenticated/ });
  await failed.getByText('POST /api/v1/session').waitFor();
});

test('a viewer sees no users, and who may order what he may not', async () => {
  const other = await open('dark');
  await other.goto(api('n3'));
  await logIn(other, 'bob', 'correct horse battery');
  await overview(other);
  expect(await other.getByRole('link', { name: 'Users' }).count()).toBe(0);
  await other.goto(`${api('n3')}/settings`);
  expect(await other.getByLabel('Repair delay').isEditable()).toBe(false);
  await other.getByText('They can be seen, and not changed.').first().waitFor();
  const save = other.getByRole('button', { name: 'Save' });
  expect(await save.isDisabled()).toBe(true);
  await other.locator('.refused', { has: save }).hover();
  await other.getByRole('tooltip').getByText('This takes an administrator.').waitFor();
  await shoot(other, 'forbidden-dark');
  // He is kept out, and sees it on the page that he looks at.
  await page.goto(`${api('n1')}/users`);
  await page.getByRole('button', { name: 'Change bob' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Nobody can log in as this user').check();
  await dialog.getByRole('button', { name: 'Change', exact: true }).click();
  await page.getByRole('row', { name: /bob/ }).getByText('disabled').waitFor();
  await other.getByText('The login has ended').waitFor();
  await shoot(other, 'ended-dark');
});

test('somebody is set to be told of alarms, and sees at once that it does not arrive', async () => {
  await page.goto(`${api('n1')}/alarms`);
  await page.getByText('Nobody is told').waitFor();
  await page.getByRole('button', { name: 'Add receiver' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('ops');
  await dialog.getByLabel('By', { exact: true }).selectOption('webhook');
  // Nobody listens at this port.
  await dialog.getByLabel('Address').fill('http://127.0.0.1:9/hook');
  await dialog.getByRole('textbox', { name: 'Secret' }).fill('open sesame');
  await shoot(page, 'receiver-light');
  await dialog.getByRole('button', { name: 'Add receiver' }).click();
  await page.getByRole('button', { name: 'Test ops' }).click();
  await dialog.getByRole('button', { name: 'Send a test' }).click();
  await dialog.getByText('cannot connect to 127.0.0.1:9').waitFor();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  expect(await page.content()).not.toContain('open sesame');
});

test('an alarm is raised for a lost node, taken note of, and over when it is back', async () => {
  await page.getByRole('button', { name: 'Change A node is lost' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('When it is so for').fill('2 s');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByText('It is in force: A node is lost').waitFor();
  cluster.kill('n2');
  const raised = page.getByRole('region', { name: 'Raised alarms' });
  const row = raised.getByRole('row', { name: /node n2/ });
  await row.getByRole('button', { name: /Take note/ }).click({ timeout: 30_000 });
  await dialog.getByLabel('What there is to say').fill('ticket 7');
  await dialog.getByRole('button', { name: 'Take note' }).click();
  await row.getByText('user admin: ticket 7').waitFor();
  await row.getByText('critical: A node is lost').click();
  await row.getByText('What to do:').waitFor();
  for (const scheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    expect(await faults(page), `alarms, ${scheme}`).toEqual([]);
    await shoot(page, `alarms-${scheme}`, true);
  }
  await page.emulateMedia({ colorScheme: 'light' });
  await page.getByRole('list').getByText('A node is lost: it does not answer').first().waitFor();
  cluster.start('n2');
  const over = page.getByRole('region', { name: 'Alarms that are over' });
  await over.getByRole('row', { name: /node n2/ }).waitFor({ timeout: 60_000 });
  await page.getByRole('listitem').filter({ hasText: 'Alarm over' }).first().waitFor();
  await shoot(page, 'alarms-over-light', true);
});

test('who logs out is out', async () => {
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByRole('button', { name: 'Log in' }).waitFor();
  await page.goto(`${api('n2')}/users`);
  await page.getByRole('button', { name: 'Log in' }).waitFor();
  expect(complaints).toEqual([]);
});
