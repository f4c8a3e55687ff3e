// The metrics of the snapshots of the counters, which one thread of a process writes.
import type { SnapshotResult } from "../core/snapshot-result.ts";
import { type Families, ofProcess } from "./families.ts";

/** Returns the function that counts one. Without `counters.snapshot.path` there is none, and all values are 0. */
export function snapshotMetrics(families: Families): (result: SnapshotResult, wallMs: number) => void {
  let writtenMs = 0;
  let bytes = 0;
  const written = "When this process last wrote a snapshot of the counters, in Unix seconds; 0: never.";
  families.gauge("headgate_snapshot_timestamp_seconds", written, () => writtenMs / 1000, ofProcess);
  families.gauge("headgate_snapshot_bytes", "Size of the last snapshot of the counters.", () => bytes, ofProcess);
  const failures = "Snapshots of the counters that could not be written.";
  const failed = families.counter("headgate_snapshot_failures_total", failures, ofProcess).series();
  return (result, wallMs) => {
    if (!result.ok) {
      failed.add();
      return;
    }
    writtenMs = wallMs;
    bytes = result.bytes;
  };
}
