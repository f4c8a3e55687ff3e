// The thread that writes a snapshot, so that no thread that serves requests waits for the disk or encodes records. It
// ends by itself when the snapshot is written, or has failed.
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { asError, failureCode } from "../../core/failure.ts";
import { ageOf, tickNow } from "../table/key-log.ts";
import { type CounterRecord, recordsOf } from "../table/maintenance.ts";
import { SnapshotFile } from "./file.ts";
import { SnapshotEncoder } from "./format.ts";
import type { FromWriter, ToWriter, WriterData } from "./write.ts";

if (parentPort !== null) serve(parentPort, workerData as WriterData);

function serve(port: MessagePort, { path, temporary, slots }: WriterData): void {
  const windows = new Map(slots.map(({ slot, windowMs }) => [slot, windowMs]));
  let writing: { readonly file: SnapshotFile; readonly encoder: SnapshotEncoder } | null = null;
  port.on("message", (message: ToWriter) => {
    let answer: FromWriter;
    try {
      writing ??= begin(path, temporary);
      const { file, encoder } = writing;
      if (message.kind === "shard") addShard(encoder, windows, message);
      else if (message.kind === "rules") encoder.addRules(message.rules);
      else {
        encoder.finish(message.description);
        file.finish();
      }
      answer = { kind: "written", bytes: file.bytes, records: encoder.records };
    } catch (error) {
      answer = { kind: "failed", code: failureCode(asError(error)) };
    }
    port.postMessage(answer);
    if (answer.kind === "failed" || message.kind === "finish") port.close();
  });
}

function begin(path: string, temporary: string) {
  const file = new SnapshotFile(path, temporary);
  return { file, encoder: new SnapshotEncoder((bytes) => file.write(bytes)) };
}

/** `windows`: by slot. */
function addShard(
  encoder: SnapshotEncoder,
  windows: ReadonlyMap<number, number | null>,
  { shard, tableMs }: Extract<ToWriter, { kind: "shard" }>,
): void {
  const now = tickNow(tableMs);
  for (const record of recordsOf(shard)) {
    const windowMs = windows.get(record.slot);
    if (windowMs === undefined) continue;
    const entries = windowMs === null ? record.entries : record.entries.filter(([at]) => ageOf(at, now) < windowMs);
    if (entries.length > 0) encoder.add({ ...record, entries } satisfies CounterRecord);
  }
}
