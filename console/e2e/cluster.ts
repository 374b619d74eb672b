import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

type DemoNode = { name: string; pid: number; api: string; command: string[] };
type DemoFile = { api: string; nodes: DemoNode[] };

/** How long a demo may take to start: a second, on a machine that has nothing else to do. */
const START_MS = 60_000;

/** A demo of three nodes in a directory of its own. */
export class Cluster {
  private readonly started: ChildProcess[] = [];

  private constructor(
    private readonly directory: string,
    private readonly parent: ChildProcess,
  ) {}

  static async start(): Promise<Cluster> {
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
        // A browser would have to be told whom to trust.
        '--insecure',
      ],
      { stdio: 'ignore' },
    );
    const cluster = new Cluster(directory, parent);
    await until('the demo to start', START_MS, async () => {
      if (parent.exitCode !== null) throw new Error(`the demo ended with ${parent.exitCode}`);
      return existsSync(join(directory, 'demo.json')) && (await healthy(cluster.file().api));
    });
    return cluster;
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

async function healthy(api: string): Promise<boolean> {
  try {
    const response = await fetch(`${api}/api/v1/status`);
    const status = await response.json();
    return status.health === 'healthy' && status.nodes.up === 3;
  } catch {
    return false;
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
