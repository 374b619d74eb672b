// The console of a secure demo: who is let in, and what that one sees. The tests are one story, told in order.
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { faults, launch, openPage, shoot } from './browser.ts';
import { Cluster } from './cluster.ts';

let cluster: Cluster;
let browser: Browser;
let page: Page;
const complaints: string[] = [];

beforeAll(async () => {
  cluster = await Cluster.start({ secure: true });
  browser = await launch(cluster.keys());
  page = await open('light');
});

afterAll(async () => {
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

test('who has not logged in sees nothing but the way in', async () => {
  await page.goto(`${api('n1')}/volumes`);
  await page.getByRole('button', { name: 'Log in' }).waitFor();
  expect(await page.getByRole('link', { name: 'Volumes' }).count()).toBe(0);
  expect(await faults(page)).toEqual([]);
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
  await other.getByLabel('Repair delay').fill('45 s');
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
  cluster.kill('n3');
  const raised = page.getByRole('region', { name: 'Raised alarms' });
  const row = raised.getByRole('row', { name: /node n3/ });
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
  await page.getByRole('list').getByText('node-lost: it has not answered').first().waitFor();
  cluster.start('n3');
  const over = page.getByRole('region', { name: 'Alarms that are over' });
  await over.getByRole('row', { name: /node n3/ }).waitFor({ timeout: 60_000 });
});

test('who logs out is out', async () => {
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByRole('button', { name: 'Log in' }).waitFor();
  await page.goto(`${api('n2')}/users`);
  await page.getByRole('button', { name: 'Log in' }).waitFor();
  expect(complaints).toEqual([]);
});
