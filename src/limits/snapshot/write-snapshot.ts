// Writes a snapshot of a table that is in use. The thread that owns the table only copies it, one shard at a time with
// the event loop in between. A thread that lives as long as this takes does the rest; at most a few copies wait for it.
import { rm } from "node:fs/promises";
import { setImmediate, setTimeout } from "node:timers/promises";
import { asError, failureCode, ignoreError } from "../../core/failure.ts";
import type { SnapshotResult } from "../../core/snapshot-result.ts";
import type { DescribedPolicy, SnapshotDescription } from "./description.ts";
import { temporaryPath } from "./snapshot-paths.ts";
import type { WrittenSlot } from "./thread-messages.ts";
import { WriterThread } from "./writer.ts";

export interface SnapshotSource {
  readonly shardCount: number;
  /** A copy of a shard as it is at one instant; null while another thread changes it. */
  copyShard(index: number): Int32Array | null;
  /** The table's time, now. */
  tableMs(): number;
  /** The instant is now. Concurrency is left out. */
  describe(): SnapshotDescription;
  /** The same policies. */
  slots(): readonly WrittenSlot[];
}

/** A thread locks a shard for microseconds, unless it died meanwhile and has not been missed yet. */
const busyRetryMs = 2;
const maxBusyMs = 10_000;

/** Longer only if the thread waits for the disk. */
const maxEndMs = 1000;

/** Replaces the file at `path`, or leaves it as it is. Never rejects. */
export async function writeSnapshot(path: string, source: SnapshotSource): Promise<SnapshotResult> {
  const temporary = temporaryPath(path);
  let thread: WriterThread | null = null;
  try {
    const before = source.describe();
    thread = new WriterThread({ path, temporary, slots: source.slots() });
    await copyShards(source, thread);
    return { ok: true, ...(await thread.finish(unchanged(source.describe(), before))) };
  } catch (error) {
    if (thread !== null) await Promise.race([thread.end(), setTimeout(maxEndMs, undefined, { ref: false })]);
    // What keeps it from being removed is what the failure is about.
    await rm(temporary, { force: true }).catch(ignoreError);
    return { ok: false, code: failureCode(asError(error)) };
  }
}

async function copyShards(source: SnapshotSource, thread: WriterThread): Promise<void> {
  let left = Array.from({ length: source.shardCount }, (_, i) => i);
  for (let waitedMs = 0; ; waitedMs += busyRetryMs) {
    const busy: number[] = [];
    for (const index of left) {
      const shard = source.copyShard(index);
      if (shard === null) busy.push(index);
      else await thread.take(shard, source.tableMs());
      await setImmediate();
    }
    if (busy.length === 0) return;
    if (waitedMs >= maxBusyMs) throw new BusyError();
    left = busy;
    await setTimeout(busyRetryMs);
  }
}

/** A reload in between may have given a slot to another policy: keys of both would look like its own. */
function unchanged(now: SnapshotDescription, before: SnapshotDescription): SnapshotDescription {
  const identity = ({ slot, name, key, rate }: DescribedPolicy): string => JSON.stringify([slot, name, rate.kind, key]);
  const known = new Set(before.policies.map(identity));
  return { ...now, policies: now.policies.filter((policy) => known.has(identity(policy))) };
}

class BusyError extends Error {
  readonly code = "BUSY";
}
