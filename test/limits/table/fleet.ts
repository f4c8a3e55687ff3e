// Threads that decide on one table, and the main thread that recovers those that end.
import { randomBytes } from "node:crypto";
import { Worker } from "node:worker_threads";
import type { Policy } from "../../../src/core/policy.ts";
import { PolicyLimiter } from "../../../src/limits/limiter.ts";
import { assignSlots } from "../../../src/limits/policies.ts";
import { CounterTable, createTableMemory } from "../../../src/limits/table/counter-table.ts";
import { geometryOf, shardAt } from "../../../src/limits/table/layout.ts";
import { SipHash } from "../../../src/limits/table/sip-hash.ts";

export interface FleetMemory {
  readonly table: SharedArrayBuffer;
  readonly secret: Uint8Array;
  /** Words of `shared`. */
  readonly counts: SharedArrayBuffer;
  /** For each admission: client, instant, and, if it holds a slot, an instant at which it still had it. */
  readonly log: SharedArrayBuffer;
}

export const logWords = 3;
const maxLogged = 1_000_000;
export const shared = { go: 0, ready: 1, left: 2, logged: 3, longestUs: 4, done: 5, blocked: 6, words: 8 } as const;

export interface ThreadTask {
  readonly policies: readonly Policy[];
  /** How many. */
  readonly clients: number;
  readonly seed: number;
  /** The decision in which the thread blocks for ever, with its locks held; -1 for none. */
  readonly blocksAt: number;
}

export interface Admission {
  readonly client: number;
  readonly atMs: number;
  readonly heldUntilMs: number;
}

/** The same in all threads of the process. */
export function sharedNowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

interface FleetOptions {
  readonly policies: readonly Policy[];
  readonly clients: number;
  readonly decisions: number;
  readonly bytes?: number;
}

export class Fleet {
  readonly table: CounterTable;
  readonly memory: FleetMemory;
  readonly counts: Int32Array;
  /** By number of thread. */
  readonly workers = new Map<number, Worker>();
  /** From the order to end until the thread had ended. */
  readonly endedAfterMs: number[] = [];
  /** Threads that had a lock when they ended. */
  endedInUpdate = 0;
  readonly #options: FleetOptions;
  #nextThread = 2;

  constructor(options: FleetOptions) {
    const { policies, decisions, bytes = 1024 * 1024 } = options;
    this.#options = options;
    this.memory = {
      table: createTableMemory(bytes),
      secret: randomBytes(16),
      counts: new SharedArrayBuffer(4 * shared.words),
      log: new SharedArrayBuffer(8 * logWords * maxLogged),
    };
    const { table, secret } = this.memory;
    this.table = new CounterTable(table, { secret, thread: 1, isShared: true });
    // Knows the policies, so that it can give slots back.
    new PolicyLimiter(policies, { table: this.table, hash: new SipHash(secret), slots: assignSlots(policies, []) });
    this.counts = new Int32Array(this.memory.counts);
    this.counts[shared.left] = decisions;
  }

  /** Returns the number of the thread. */
  start(blocksAt = -1): number {
    const thread = this.#nextThread;
    this.#nextThread = thread === 64 ? 2 : thread + 1;
    const { policies, clients } = this.#options;
    const task: ThreadTask = { policies, clients, seed: 1, blocksAt };
    const workerData = { memory: this.memory, task, thread };
    const worker = new Worker(new URL("./deciding-thread.ts", import.meta.url), { workerData, execArgv: [] });
    this.workers.set(thread, worker);
    worker.on("exit", () => {
      this.workers.delete(thread);
      if (this.#holdsLock(thread)) this.endedInUpdate += 1;
      this.table.maintenance.recover(thread);
    });
    worker.on("error", (error) => {
      throw error;
    });
    return thread;
  }

  /** Resolves when so many threads, of all that were started, have begun to decide or wait to. */
  areReady(threads: number): Promise<void> {
    return until(() => Atomics.load(this.counts, shared.ready) >= threads);
  }

  async go(threads: number): Promise<void> {
    await this.areReady(threads);
    Atomics.store(this.counts, shared.go, 1);
    Atomics.notify(this.counts, shared.go);
  }

  async kill(thread: number): Promise<void> {
    const worker = this.workers.get(thread);
    const beforeMs = sharedNowMs();
    await worker?.terminate();
    this.endedAfterMs.push(sharedNowMs() - beforeMs);
  }

  /** Lets all threads end on their own. */
  stop(): void {
    Atomics.store(this.counts, shared.left, 0);
  }

  async ended(): Promise<void> {
    await until(() => this.workers.size === 0);
  }

  #holdsLock(thread: number): boolean {
    const geometry = geometryOf(this.memory.table.byteLength);
    return Array.from({ length: geometry.ownShards + 1 }, (_, i) => shardAt(i, geometry)).some((lockAt) =>
      this.table.locks.isHeldBy(lockAt, thread),
    );
  }

  get longestMs(): number {
    return Atomics.load(this.counts, shared.longestUs) / 1000;
  }

  admissions(): Admission[] {
    const log = new Float64Array(this.memory.log);
    return Array.from({ length: Atomics.load(this.counts, shared.logged) }, (_, i) => {
      const [client = 0, atMs = 0, heldUntilMs = 0] = log.subarray(i * logWords);
      return { client, atMs, heldUntilMs };
      // Logged by a thread that ended before it had written it.
    }).filter(({ atMs }) => atMs > 0);
  }
}

export async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 1));
}

/** Returns the most admissions of a client in any trailing window. */
export function mostInWindow(admissions: readonly Admission[], windowMs: number): number {
  const byClient = Map.groupBy(admissions, ({ client }) => client);
  let most = 0;
  for (const list of byClient.values()) {
    const instants = list.map(({ atMs }) => atMs).sort((a, b) => a - b);
    let first = 0;
    for (const [i, atMs] of instants.entries()) {
      while (atMs - (instants[first] as number) >= windowMs) first += 1;
      most = Math.max(most, i - first + 1);
    }
  }
  return most;
}

/** Returns the most slots that a client had at once. */
export function mostAtOnce(admissions: readonly Admission[]): number {
  const byClient = Map.groupBy(admissions, ({ client }) => client);
  let most = 0;
  for (const list of byClient.values()) {
    const changes = list.flatMap(({ atMs, heldUntilMs }) => [[atMs, 1] as const, [heldUntilMs, -1] as const]);
    let now = 0;
    for (const [, change] of changes.sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
      now += change;
      most = Math.max(most, now);
    }
  }
  return most;
}
