// A gateway in a process of its own, whose CPU time is read from the kernel to the nanosecond. Nothing is loaded into it
// unless its turns are watched, because watching them costs CPU itself.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readdirSync, readSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { TurnFigures } from "../turn-watch.ts";

export interface GatewayOptions {
  /** dist/main.js or src/main.ts of the checkout that is measured. */
  readonly main: string;
  /** YAML, over the defaults. */
  readonly config: string;
  readonly watchesTurns?: boolean;
}

const startTimeoutMs = 20_000;

/** A process at rest uses less between two polls: Node's measurement of the delay of its loop runs every 10 ms. */
const restUs = 150;

/** Also tells how much memory is in use, without garbage. */
const collecting = `data:text/javascript,${encodeURIComponent(`process.on("message", (message) => {
  if (!message.collect) return;
  gc();
  const { heapUsed, external } = process.memoryUsage();
  process.send({ usedBytes: heapUsed + external });
})`)}`;

const watching = [
  "--expose-gc",
  "--import",
  collecting,
  "--import",
  fileURLToPath(new URL("../turn-watch.ts", import.meta.url)),
];

export class GatewayProcess {
  readonly #child: ChildProcess;
  readonly #ports: ReadonlyMap<string, number>;
  readonly #folder: string;
  /** The kernel's figures of each thread: Node starts its threads with the process. */
  readonly #schedules: readonly number[];
  readonly #states: readonly number[];

  private constructor(child: ChildProcess, ports: ReadonlyMap<string, number>, folder: string) {
    this.#child = child;
    this.#ports = ports;
    this.#folder = folder;
    const tasks = `/proc/${child.pid}/task`;
    const open = (name: string) => readdirSync(tasks).map((task) => openSync(`${tasks}/${task}/${name}`, "r"));
    this.#schedules = open("schedstat");
    this.#states = open("stat");
  }

  static async start({ main, config, watchesTurns = false }: GatewayOptions): Promise<GatewayProcess> {
    const folder = mkdtempSync(join(tmpdir(), "headgate-search-"));
    const file = join(folder, "headgate.yaml");
    writeFileSync(file, config);
    const watch = watchesTurns ? watching : [];
    const child = spawn(process.execPath, [...watch, main, "start", "--config", file], {
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      env: {},
    });
    const kill = (): void => void child.kill("SIGKILL");
    process.once("exit", kill);
    child.once("exit", () => process.off("exit", kill));
    return new GatewayProcess(child, await portsOf(child), folder);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Of the listener `traffic`, `admin`, `ext-auth` or `ext-auth-grpc`. */
  port(listener: string): number {
    const port = this.#ports.get(listener);
    if (port === undefined) throw new Error(`the gateway does not listen for ${listener}`);
    return port;
  }

  /** CPU time of all threads. Exact while the process waits. */
  cpuUs(): number {
    let nanoseconds = 0;
    for (const file of this.#schedules) nanoseconds += Number.parseInt(reread(file), 10);
    return nanoseconds / 1000;
  }

  /** Resolves with the CPU time when the process has been at rest for `calmMs`; at the latest after `timeoutMs`. */
  async atRest(calmMs = 3, timeoutMs = 10_000): Promise<number> {
    let last = this.cpuUs();
    let sinceMs = performance.now();
    const untilMs = sinceMs + timeoutMs;
    for (;;) {
      await wait(1);
      const now = this.cpuUs();
      const nowMs = performance.now();
      if (now - last > restUs || this.#isRunning()) sinceMs = nowMs;
      last = now;
      if (nowMs - sinceMs >= calmMs || nowMs >= untilMs || this.hasEnded) return now;
    }
  }

  /** Or one of its threads waits for a processor: the main thread waits for those that collect garbage. */
  #isRunning(): boolean {
    return this.#states.some((file) => /\) [RD] /.test(reread(file)));
  }

  /** Only if the turns are watched. */
  async turns(): Promise<TurnFigures> {
    return (await this.#ask({ read: true })) as TurnFigures;
  }

  /** Of the heap and of buffers, without garbage. Only if the turns are watched. */
  async usedBytes(): Promise<number> {
    const { usedBytes } = (await this.#ask({ collect: true })) as { usedBytes: number };
    return usedBytes;
  }

  async #ask(question: object): Promise<unknown> {
    const answer = once(this.#child, "message");
    this.#child.send(question);
    return (await answer)[0];
  }

  async stop(): Promise<void> {
    rmSync(this.#folder, { recursive: true, force: true });
    for (const file of [...this.#schedules, ...this.#states]) closeSync(file);
    if (this.hasEnded) return;
    this.#child.kill("SIGKILL");
    await once(this.#child, "exit");
  }
}

const listening = /"listener":"([^"]+)","host":"[^"]+","port":(\d+)/g;

/** Reads the lines that name the listeners, then discards what the process writes. */
async function portsOf(child: ChildProcess): Promise<ReadonlyMap<string, number>> {
  let said = "";
  let isStarted = false;
  const ports = new Map<string, number>();
  const started = new Promise<void>((resolve, reject) => {
    const fail = (why: string): void => reject(new Error(`the gateway ${why}: ${said.slice(-2000)}`));
    const timer = setTimeout(fail, startTimeoutMs, "did not start");
    child.once("exit", () => fail("ended"));
    child.stderr?.on("data", (bytes: Buffer) => {
      said = (said + bytes).slice(-4000);
    });
    child.stdout?.on("data", (bytes: Buffer) => {
      if (isStarted) return;
      said += bytes;
      for (const [, name = "", port] of said.matchAll(listening)) ports.set(name, Number(port));
      if (!ports.has("traffic")) return;
      clearTimeout(timer);
      // The lines of the other listeners follow at once.
      setTimeout(() => {
        isStarted = true;
        resolve();
      }, 100);
    });
  });
  await started;
  return ports;
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

const room = Buffer.alloc(512);

/** A file of the kernel, from its start. "0" if the thread is gone. */
function reread(file: number): string {
  try {
    return room.toString("latin1", 0, readSync(file, room, 0, room.length, 0));
  } catch {
    return "0";
  }
}
