// A worker thread that writes numbered lines of many lengths, then ends in the way that it is told.
import { parentPort, workerData } from "node:worker_threads";
import { threadDestination } from "../../src/telemetry/thread-log.ts";

const { name, port, end } = workerData;
const destination = threadDestination(port, { delayMs: 1 });
for (let i = 0; i < 300; i += 1) {
  destination.write(`${JSON.stringify({ name, i, text: "é".repeat(i % 100 === 7 ? 100 * 1024 : i) })}\n`);
  // Some lines of several turns.
  if (i % 50 === 0) await new Promise((resolve) => void setImmediate(resolve));
}
if (end === "flush") await new Promise<void>((resolve) => destination.flush(resolve));
if (end === "exit" || end === "terminate") destination.flush();
if (end === "exit") process.exit(3);
if (end === "terminate") {
  parentPort?.postMessage("posted");
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}
