// A store behind a network: passes each piece on after a delay, and what goes to the store not while it stalls, which it
// does again and again. A process of its own, because a gateway that is busy would be a delay too. Run by leases.ts.
import { connect, createServer, type Socket } from "node:net";
import { startTicks } from "./ticks.ts";

const [port = 0, storePort = 0, delayMs = 0, stallMs = 0, stallEveryMs = 0] = process.argv.slice(2).map(Number);
const tickMs = 0.2;

interface Pipe {
  readonly to: Socket;
  readonly waiting: { readonly data: Buffer; readonly dueMs: number }[];
}

const pipes = new Set<Pipe>();

/** When a piece for the store leaves that would leave at an instant. */
function afterStall(dueMs: number): number {
  const intoStallMs = dueMs % stallEveryMs;
  return intoStallMs < stallMs ? dueMs - intoStallMs + stallMs : dueMs;
}

function pass(from: Socket, to: Socket, isToStore: boolean): void {
  const pipe: Pipe = { to, waiting: [] };
  pipes.add(pipe);
  from.on("data", (data: Buffer) => {
    const dueMs = performance.now() + delayMs;
    pipe.waiting.push({ data, dueMs: isToStore ? afterStall(dueMs) : dueMs });
  });
  from.on("error", () => {});
  from.on("close", () => {
    pipes.delete(pipe);
    to.destroy();
  });
}

createServer((gateway) => {
  gateway.setNoDelay(true);
  const store = connect({ port: storePort, host: "127.0.0.1", noDelay: true });
  pass(gateway, store, true);
  pass(store, gateway, false);
}).listen(port, "127.0.0.1");

startTicks(0, tickMs, () => {
  const nowMs = performance.now();
  for (const { to, waiting } of pipes) {
    let due = 0;
    while (due < waiting.length && (waiting[due]?.dueMs ?? 0) <= nowMs) due += 1;
    for (const { data } of waiting.splice(0, due)) to.write(data);
  }
});
