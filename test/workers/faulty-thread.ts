// A thread that a test can end: it does what the real one does, and listens to the test on a channel that only code of the
// same process reaches.
import { BroadcastChannel, parentPort, threadId, workerData } from "node:worker_threads";

export const faultChannel = "headgate-test-faults";

/** `thread`: whose fault it is. `on`: the request on which the thread ends; null: at once. */
export interface Fault {
  readonly thread: number;
  readonly on: string | null;
  readonly how: "exit" | "throw" | "block";
  /** Of `block`: the thread stands still until the test has changed this word, and has notified it. */
  readonly until?: Int32Array<SharedArrayBuffer>;
}

if (parentPort !== null && threadId !== 0) {
  const own: number = workerData.thread;
  let fault: Fault | null = null;
  const end = ({ how, until }: Fault): void => {
    if (how === "exit") process.exit(3);
    if (until !== undefined) {
      Atomics.wait(until, 0, 0);
      return;
    }
    setImmediate(() => {
      throw new Error("a fault of the test");
    });
  };
  const channel = new BroadcastChannel(faultChannel);
  channel.onmessage = ({ data }: { readonly data: Fault }) => {
    if (data.thread !== own) return;
    channel.postMessage({ heardBy: own });
    if (data.on === null) end(data);
    else fault = data;
  };
  channel.unref();
  parentPort.on("message", ({ name }: { readonly name: string }) => {
    if (fault !== null && fault.on === name) end(fault);
  });
  await import("../../src/gateway/threads/thread.ts");
}
