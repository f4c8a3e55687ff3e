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

function serve(port: MessagePort, data: WriterData): void {
  const answer = (message: FromWriter): void => port.postMessage(message);
  let file: SnapshotFile | null = null;
  const attempt = (step: () => void): void => {
    try {
      step();
    } catch (error) {
      file?.drop();
      answer({ kind: "failed", code: failureCode(asError(error)) });
      port.close();
    }
  };
  attempt(() => {
    const opened = new SnapshotFile(data.path, data.temporary);
    file = opened;
    const encoder = new SnapshotEncoder((bytes) => opened.write(bytes));
    const windows = new Map(data.slots.map(({ slot, windowMs }) => [slot, windowMs]));
    port.on("message", (message: ToWriter) =>
      attempt(() => {
        if (message.kind === "shard") {
          addShard(encoder, windows, message);
          answer({ kind: "taken" });
          return;
        }
        if (message.kind === "rules") {
          encoder.addRules(message.rules);
          return;
        }
        encoder.finish(message.description);
        opened.finish();
        answer({ kind: "written", bytes: opened.bytes, records: encoder.records });
        port.close();
      }),
    );
  });
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
