// The snapshots of the counters: reads the last one at a start, before a port is opened, and writes one every so often
// and at the end of a drain. For the thread that owns the table. Nothing that fails here keeps a gateway from serving.
import type { Clock } from "../core/clock.ts";
import { asError, failureCode } from "../core/failure.ts";
import type { Rule } from "../core/rules.ts";
import type { Settings } from "../core/settings.ts";
import type { SnapshotResult } from "../core/snapshot-result.ts";
import { assignSlots, type PolicySlot } from "../limits/policies.ts";
import { fileIdentity, openSnapshot } from "../limits/snapshot/file.ts";
import type { DescribedRate, Snapshot, SnapshotDescription } from "../limits/snapshot/format.ts";
import { Restore } from "../limits/snapshot/restore.ts";
import { type SnapshotSource, writeSnapshot } from "../limits/snapshot/write.ts";
import type { CounterTable } from "../limits/table/counter-table.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import {
  type CounterMemory,
  createCounterMemory,
  openCounters,
  sharedBytes,
  type ThreadCounters,
} from "./open-counters.ts";

type SnapshotSettings = NonNullable<Settings["counters"]["snapshot"]>;

interface SnapshotParts {
  readonly clock: Clock;
  readonly log: Logger;
}

/** What a process begins with. */
interface Restored {
  readonly memory: CounterMemory;
  readonly rules: readonly Rule[];
}

/**
 * Makes the memory of the counters, with what still counts of the last snapshot. Returns all rules of the snapshot, also those
 * that have ended.
 */
export async function restoreCounters(
  { path }: SnapshotSettings,
  { counters: { memoryBytes }, policies }: Settings,
  { clock, log }: SnapshotParts,
): Promise<Restored> {
  const empty = createCounterMemory(memoryBytes);
  const refuse = (reason: string): Restored => {
    log.warn({ file: path, reason }, "snapshot of the counters refused, they start empty");
    return { memory: createCounterMemory(memoryBytes), rules: [] };
  };
  const opened = await openSnapshot(path);
  if (opened.kind === "refused") return refuse(opened.reason);
  if (opened.kind === "none") {
    log.info({ file: path }, "no snapshot of the counters, they start empty");
    return { memory: empty, rules: [] };
  }
  const { rules } = opened.snapshot;
  if (rules === null) log.warn({ file: path }, "rules of the snapshot are damaged, there are none now");
  try {
    const memory = { ...empty, ...identityOf(opened.snapshot, empty.owner) };
    const { table } = openCounters(memory);
    const restored = await restoreTo(table, opened.snapshot, assignSlots(policies, []), clock);
    const facts = { file: path, ...restored };
    // Clients without room have their whole quota again.
    if (restored.withoutRoom > 0) log.warn(facts, "counters restored");
    else log.info(facts, "counters restored");
    const { trialSinceMs } = opened.snapshot.description;
    if (trialSinceMs !== null) {
      const since = new Date(trialSinceMs).toISOString();
      log.warn({ since }, "a reload was on trial when the last process ended, this start uses what the file has");
    }
    return { memory, rules: rules ?? [] };
  } catch (error) {
    // The disk has failed since the file was checked. A part of the counters is of no use without the rest.
    return refuse(`cannot be read: ${failureCode(asError(error))}`);
  } finally {
    await opened.close();
  }
}

/** Takes over the name that the last process had at the store. Under a new one, its counts would be added once more. */
function identityOf({ description }: Snapshot, newOwner: string): Omit<CounterMemory, "memory"> {
  const { placeSecret, keySecret, owner } = description;
  return { placeSecret, keySecret: sharedBytes(keySecret), owner: owner ?? newOwner };
}

async function restoreTo(table: CounterTable, snapshot: Snapshot, slots: readonly PolicySlot[], clock: Clock) {
  const now = { wallMs: clock.wallMs(), tableMs: clock.monotonicMs() };
  const restore = new Restore(snapshot.description, slots, now);
  for (const { slot, period, end } of restore.periods) table.periodOf(slot).restore(period, end);
  let keys = 0;
  let withoutRoom = 0;
  await snapshot.eachRecord((before) => {
    const record = restore.record(before);
    if (record === null) return;
    if (table.maintenance.restore(record)) keys += 1;
    else withoutRoom += 1;
  });
  return { keys, withoutRoom, expired: snapshot.records - keys - withoutRoom, ageSeconds: restore.passedMs / 1000 };
}

interface SnapshotsOptions extends SnapshotParts {
  readonly counters: ThreadCounters;
  /** The policies in force. */
  readonly slots: () => readonly PolicySlot[];
  /** In force. */
  readonly rules: () => readonly Rule[];
  /** Since when a reload is on trial, by the wall clock; null: none is. */
  readonly trialSinceMs: () => number | null;
  readonly telemetry: { readonly metrics: Pick<Metrics, "snapshotEnded"> };
}

/** How long after a change its snapshot begins. */
const soonMs = 1_000;

export class Snapshots {
  readonly #path: string;
  readonly #options: SnapshotsOptions;
  readonly #timer: NodeJS.Timeout;
  #writing: Promise<void> | null = null;
  /** For a change that must be in the next snapshot soon; null if there is none. */
  #soon: NodeJS.Timeout | null = null;
  #isStopped = false;
  #isFailing = false;
  /** Of the file that this process has written last. */
  #identity: string | null = null;
  #isShared = false;

  constructor({ path, everyMs }: SnapshotSettings, options: SnapshotsOptions) {
    this.#path = path;
    this.#options = options;
    // A snapshot that takes longer than the interval is not interrupted.
    this.#timer = setInterval(() => {
      this.#writing ??= this.#write();
    }, everyMs).unref();
  }

  /** Writes a snapshot in a second. For changes that must not be lost; the counts of a minute may be. */
  writeSoon(): void {
    if (this.#isStopped) return;
    this.#soon ??= setTimeout(() => {
      this.#soon = null;
      void this.#writeAfter();
    }, soonMs).unref();
  }

  /** Writes the last snapshot, after the drain, when the counters no longer change. */
  async writeLast(): Promise<void> {
    await this.stop();
    await this.#write({ isLast: true });
  }

  /** Resolves when none is being written. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    clearTimeout(this.#soon ?? undefined);
    await this.#writing;
  }

  /** The snapshot that is being written may lack the change, so another one follows. */
  async #writeAfter(): Promise<void> {
    await this.#writing;
    if (!this.#isStopped) this.#writing ??= this.#write();
  }

  async #write({ isLast = false } = {}): Promise<void> {
    const { clock, telemetry } = this.#options;
    await this.#warnOfOthers();
    const result = await writeSnapshot(this.#path, this.#source());
    this.#identity = result.ok ? await fileIdentity(this.#path) : this.#identity;
    this.#writing = null;
    this.#logChange(result, isLast);
    telemetry.metrics.snapshotEnded(result, clock.wallMs());
  }

  /** Each of two processes with one path would take over the counters of whichever wrote last. One line is enough. */
  async #warnOfOthers(): Promise<void> {
    if (this.#isShared || this.#identity === null) return;
    const identity = await fileIdentity(this.#path);
    if (identity === null || identity === this.#identity) return;
    this.#isShared = true;
    this.#options.log.warn({ file: this.#path }, "snapshot of the counters replaced by another process");
  }

  /** The next start depends on the last snapshot, so its failure is always logged. */
  #logChange(result: SnapshotResult, isLast: boolean): void {
    const { log } = this.#options;
    if (!result.ok && (isLast || !this.#isFailing)) {
      log.error({ file: this.#path, code: result.code }, "snapshot of the counters not written");
    }
    if (result.ok && this.#isFailing) log.info({ bytes: result.bytes }, "snapshot of the counters written again");
    this.#isFailing = !result.ok;
  }

  #source(): SnapshotSource {
    const { counters, clock, slots, rules } = this.#options;
    const { maintenance } = counters.table;
    return {
      rules,
      shardCount: maintenance.shardCount,
      copyShard: (index) => maintenance.copyShard(index),
      tableMs: () => clock.monotonicMs(),
      describe: () => this.#describe(),
      slots: () =>
        slots().flatMap(({ slot, policy: { rate } }) => {
          if (rate.kind === "concurrency") return [];
          return [{ slot, windowMs: rate.kind === "sliding" ? rate.windowMs : null }];
        }),
    };
  }

  #describe(): SnapshotDescription {
    const { counters, clock, slots, trialSinceMs } = this.#options;
    const { table, placeSecret, keySecret, owner } = counters;
    const policies = slots().flatMap(({ slot, policy: { name, key, rate } }) => {
      const described = describeRate(rate, table, slot);
      return described === null ? [] : [{ slot, name, key, rate: described }];
    });
    const instants = { wallMs: clock.wallMs(), tableMs: clock.monotonicMs(), trialSinceMs: trialSinceMs() };
    return { ...instants, placeSecret, keySecret, owner, policies };
  }
}

/** Null for a policy that no snapshot has. */
export function describeRate(
  rate: PolicySlot["policy"]["rate"],
  table: CounterTable,
  slot: number,
): DescribedRate | null {
  if (rate.kind === "concurrency") return null;
  if (rate.kind === "sliding") return { kind: "sliding" };
  const { number, endMs, dueMs } = table.periodOf(slot);
  return { ...rate, period: number, endWallMs: endMs, dueTableMs: dueMs };
}
