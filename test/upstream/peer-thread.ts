// An upstream in a thread of its own. It acts while the event loop of the gateway stands still, so the gateway finds all of what
// it did at once: bytes, an end and a reset, in this order, as a machine that was busy for a moment would find them.
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Cleanup } from "../support/cleanup.ts";
import { within } from "../support/eventually.ts";

/**
 * `fin`: ends its side; over TLS with a close_notify. `cut`: the same of TCP alone. `rst`: resets the connection. Everything else is
 * written.
 */
export type Step = "fin" | "cut" | "rst" | `write ${string}`;

export interface PeerThread {
  readonly port: number;
  /** Resolves when a request has come up to the mark. From then on nothing of it is read. */
  asked(): Promise<void>;
  /** Returns when all steps are done. The event loop stands still meanwhile. */
  act(steps: readonly Step[]): void;
}

/** Ends what has to be read of a request. */
export const mark = "|";

/** Null: plain. */
export async function startPeerThread(
  cleanup: Cleanup,
  certificate: { readonly cert: string; readonly key: string } | null,
): Promise<PeerThread> {
  const done = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(source, { eval: true, workerData: { done, certificate, mark } });
  cleanup(() => worker.terminate());
  const [port] = (await within("the thread listens", once(worker, "message"))) as [number];
  return {
    port,
    asked: async () => void (await within("the request comes", once(worker, "message"))),
    act(steps) {
      Atomics.store(done, 0, 0);
      worker.postMessage(steps);
      if (Atomics.wait(done, 0, 0, 8_000) === "timed-out") throw new Error(`not done within 8 s: ${steps.join()}`);
    },
  };
}

const source = `
const { parentPort, workerData: { done, certificate, mark } } = require("node:worker_threads");
const { createServer } = require("node:net");
const { TLSSocket } = require("node:tls");
let current = null;
const server = createServer({ allowHalfOpen: true, noDelay: true }, (tcp) => {
  const socket = certificate === null ? tcp : new TLSSocket(tcp, { isServer: true, allowHalfOpen: true, ...certificate });
  for (const each of [tcp, socket]) each.on("error", () => {});
  let text = "";
  socket.on("data", (bytes) => {
    text += bytes.toString("latin1");
    if (!text.endsWith(mark)) return;
    text = "";
    socket.pause();
    current = { tcp, socket };
    parentPort.postMessage("asked");
  });
});
const step = (what, { tcp, socket }) => new Promise((resolve) => {
  if (what === "fin") socket.end(resolve);
  else if (what === "cut") tcp.end(resolve);
  else if (what === "rst") tcp.once("close", resolve).resetAndDestroy();
  else socket.write(what.slice("write ".length), "latin1", resolve);
});
parentPort.on("message", async (steps) => {
  for (const what of steps) await step(what, current);
  Atomics.store(done, 0, 1);
  Atomics.notify(done, 0);
});
server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));
`;
