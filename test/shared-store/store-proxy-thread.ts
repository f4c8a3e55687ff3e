// A TCP proxy whose connections a test delays, throttles, holds and cuts. In a thread of its own, because a delay of the
// clients' event loop would be one of the store too.
import { connect, createServer, type Socket } from "node:net";
import { parentPort, workerData } from "node:worker_threads";
import type { ProxyCommand, ProxyFault } from "./store-proxy.ts";

let targetPort: number = workerData.targetPort;
let fault: ProxyFault = { delayMs: 0, bytesPerSecond: Number.POSITIVE_INFINITY, isHeld: false, isRefused: false };
const pipes = new Set<Pipe>();

/** One direction of a connection. What waits when the hold ends is passed on: a network that comes back loses nothing. */
class Pipe {
  readonly #from: Socket;
  readonly #to: Socket;
  readonly #waiting: { readonly data: Buffer; readonly dueMs: number }[] = [];
  #busyUntilMs = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(from: Socket, to: Socket) {
    this.#from = from;
    this.#to = to;
    pipes.add(this);
    from.on("data", (data: Buffer) => {
      const nowMs = performance.now();
      // The bytes go over the line one after the other.
      this.#busyUntilMs = Math.max(nowMs, this.#busyUntilMs) + (data.length / fault.bytesPerSecond) * 1000;
      this.#waiting.push({ data, dueMs: this.#busyUntilMs + fault.delayMs });
      this.pass();
    });
    from.on("error", () => {});
    from.on("close", () => this.cut());
  }

  pass(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (fault.isHeld) return;
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const earlyMs = next.dueMs - performance.now();
      if (earlyMs > 0) {
        this.#timer = setTimeout(() => this.pass(), earlyMs);
        return;
      }
      this.#waiting.shift();
      this.#to.write(next.data);
    }
  }

  cut(): void {
    pipes.delete(this);
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#from.destroy();
    this.#to.destroy();
  }
}

const server = createServer((socket) => {
  socket.setNoDelay(true);
  if (fault.isRefused) return void socket.resetAndDestroy();
  const store = connect({ port: targetPort, host: "127.0.0.1", noDelay: true });
  new Pipe(socket, store);
  new Pipe(store, socket);
});

parentPort?.on("message", (command: ProxyCommand) => {
  if (command.do === "cut") for (const pipe of pipes) pipe.cut();
  if (command.do === "target") targetPort = command.port;
  if (command.do === "fault") {
    fault = command.fault;
    for (const pipe of pipes) pipe.pass();
  }
  parentPort?.postMessage("done");
});
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (address !== null && typeof address === "object") parentPort?.postMessage(address.port);
});
