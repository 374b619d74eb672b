import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, X509Certificate } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { get } from 'node:https';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

type DemoNode = {
  name: string;
  pid: number;
  api: string;
  portal: string;
  command: string[];
};
type DemoFile = {
  api: string;
  nodes: DemoNode[];
  token: string | null;
  ca: string | null;
  login?: { user: string; password_file: string };
};

/** How long a demo may take to start: a second, on a machine that has nothing else to do. */
const START_MS = 60_000;

/** A demo of three nodes in a directory of its own. */
export class Cluster {
  private readonly started: ChildProcess[] = [];

  private constructor(
    private readonly directory: string,
    private readonly parent: ChildProcess,
  ) {}

  static async start({ secure = false } = {}): Promise<Cluster> {
    const program = process.env.HOLDFAST_BIN;
    if (!program)
      throw new Error('HOLDFAST_BIN names no program; `cargo xtask ci browser` does that');
    const directory = mkdtempSync(join(tmpdir(), 'holdfast-e2e-console-'));
    const port = await freePort();
    const parent = spawn(
      program,
      // The metadata and the nodes' peers are 100 above the interface.
      [
        'demo',
        '--dir',
        directory,
        '--portal-port',
        `${port}`,
        '--api-port',
        `${port + 20}`,
        '--device-size',
        '4GiB',
        // Most of what a console does is the same without logins.
        ...(secure ? [] : ['--insecure']),
      ],
      { stdio: 'ignore' },
    );
    const cluster = new Cluster(directory, parent);
    await until('the demo to start', START_MS, async () => {
      if (parent.exitCode !== null) throw new Error(`the demo ended with ${parent.exitCode}`);
      return existsSync(join(directory, 'demo.json')) && (await cluster.healthy());
    });
    return cluster;
  }

  private async healthy(): Promise<boolean> {
    try {
      const status = JSON.parse(await this.ask('/api/v1/status'));
      return status.health === 'healthy' && status.nodes.up === 3;
    } catch {
      return false;
    }
  }

  /** What the demo's interface answers, by the demo's authority and its token if it is secure. */
  private ask(path: string): Promise<string> {
    const { api, ca, token } = this.file();
    if (ca === null) return fetch(`${api}${path}`).then((answer) => answer.text());
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}` };
      get(`${api}${path}`, { ca: readFileSync(ca), headers }, (answer) => {
        let text = '';
        answer.on('data', (piece) => {
          text += piece;
        });
        answer.on('end', () => resolve(text));
      }).on('error', reject);
    });
  }

  /** The SHA-256 of the key of each server, by which a browser knows them. */
  keys(): string[] {
    const places = [
      this.directory,
      ...this.file().nodes.map(({ name }) => join(this.directory, name)),
    ];
    return places.map((place) => {
      const { publicKey } = new X509Certificate(readFileSync(join(place, 'tls', 'node.pem')));
      const key = publicKey.export({ type: 'spki', format: 'der' });
      return createHash('sha256').update(key).digest('base64');
    });
  }

  /** The password of the demo's first user. */
  password(): string {
    const login = this.file().login;
    if (!login) throw new Error('the demo has no users');
    return readFileSync(login.password_file, 'utf8').trim();
  }

  file(): DemoFile {
    return JSON.parse(readFileSync(join(this.directory, 'demo.json'), 'utf8'));
  }

  node(name: string): DemoNode {
    const found = this.file().nodes.find((node) => node.name === name);
    if (!found) throw new Error(`the demo has no node ${name}`);
    return found;
  }

  kill(name: string): void {
    const again = this.started.find((child) => child.spawnargs.join(' ').includes(`/${name}/`));
    process.kill(again?.pid ?? this.node(name).pid, 'SIGKILL');
  }

  start(name: string): void {
    const [program, ...args] = this.node(name).command;
    if (!program) throw new Error(`${name} has no command`);
    this.started.push(spawn(program, args, { stdio: 'ignore' }));
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.parent.once('exit', resolve));
    this.parent.kill('SIGINT');
    await ended;
    for (const child of this.started) child.kill('SIGKILL');
    rmSync(this.directory, { recursive: true, force: true });
  }
}

export async function until(what: string, ms: number, isSo: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + ms;
  while (!(await isSo())) {
    if (Date.now() > end) throw new Error(`waited ${ms} ms for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** A port below those that the kernel gives to outgoing connections, with room above it. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + 200 * Math.floor(Math.random() * 50);
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => resolve(true));
    });
    await new Promise((resolve) => server.close(resolve));
    if (isFree) return port;
  }
}
