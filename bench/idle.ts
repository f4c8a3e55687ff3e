// What a connection costs in memory that is open and idle after one request: 10,000 of them, from several loopback
// addresses, so that the ports suffice and no address has more than its share.
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type Running, residentBytes } from "./processes.ts";

export interface IdleResult {
  readonly contender: string;
  readonly round: number;
  readonly connections: number;
  /** Resident memory after one request and before the connections. */
  readonly emptyBytes: number;
  readonly fullBytes: number;
}

export const idleConnections = 10_000;
const addresses = 10;
const openedAtOnce = 100;
/** Less than what any of them keeps an idle connection. */
const settleMs = 3000;
const request = "GET /v2/200b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

/** Rejects if a connection is refused, answered otherwise than with 200, or closed before the memory is read. */
export async function measureIdle(
  contender: string,
  round: number,
  { port, running }: { port: number; running: Running },
): Promise<IdleResult> {
  const sockets: Socket[] = [];
  let closed = 0;
  const open = async (): Promise<void> => {
    while (sockets.length < idleConnections) {
      const localAddress = `127.0.0.${2 + (sockets.length % addresses)}`;
      const socket = connect({ port, host: "127.0.0.1", localAddress });
      sockets.push(socket);
      await answered(socket);
      socket.on("close", () => {
        closed += 1;
      });
    }
  };
  try {
    const first = connect({ port, host: "127.0.0.1" });
    await answered(first);
    first.destroy();
    await sleep(settleMs);
    const emptyBytes = residentBytes(running.pid);
    await Promise.all(Array.from({ length: openedAtOnce }, open));
    await sleep(settleMs);
    const fullBytes = residentBytes(running.pid);
    if (closed > 0) throw new Error(`${contender} closed ${closed} of ${idleConnections} connections`);
    return { contender, round, connections: idleConnections, emptyBytes, fullBytes };
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}

/** Resolves with the whole answer to one GET. */
function answered(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    let answer = "";
    socket.on("data", (chunk) => {
      answer += chunk.toString("latin1");
      if (!answer.endsWith('"}')) return;
      if (answer.startsWith("HTTP/1.1 200 ")) resolve();
      else reject(new Error(`an idle connection was answered with ${answer}`));
    });
    socket.once("error", reject);
    socket.once("close", () => reject(new Error(`a connection was closed after ${answer.length} bytes`)));
    socket.write(request);
  });
}
