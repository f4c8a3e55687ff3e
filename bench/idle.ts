// What a connection costs in memory that is open and idle after one request: thousands of them, from several loopback
// addresses, so that the ports suffice and no address has more than its share.
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import { type Running, residentBytes } from "./processes.ts";

export interface IdleResult {
  readonly kind: IdleKind["kind"];
  readonly contender: string;
  readonly round: number;
  readonly connections: number;
  /** Resident memory after one request and before the connections. */
  readonly emptyBytes: number;
  readonly fullBytes: number;
}

export interface IdleKind {
  readonly kind: "http1" | "h2";
  readonly title: string;
  readonly mode: "crowded" | "tls-crowded";
  readonly isTls: boolean;
  readonly connections: number;
}

/** Handshakes take time, so there are fewer with TLS. */
export const idleKinds: readonly IdleKind[] = [
  { kind: "http1", title: "10,000 idle connections", mode: "crowded", isTls: false, connections: 10_000 },
  { kind: "h2", title: "4,000 idle connections of HTTP/2", mode: "tls-crowded", isTls: true, connections: 4_000 },
];
export const mostIdleConnections = Math.max(...idleKinds.map(({ connections }) => connections));

const addresses = 10;
const openedAtOnce = 100;
/** Longer than the gateway remembers a head, and less than any of them keeps an idle connection. */
const settleMs = 7000;
const request = "GET /v2/200b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

export function bytesOfOne({ fullBytes, emptyBytes, connections }: IdleResult): number {
  return (fullBytes - emptyBytes) / connections;
}

/** Rejects if a connection is refused, answered otherwise than with 200, or closed before the memory is read. */
export async function measureIdle(
  { kind, isTls, connections }: IdleKind,
  contender: string,
  round: number,
  { port, running }: { port: number; running: Running },
): Promise<IdleResult> {
  const sockets: Socket[] = [];
  let closed = 0;
  const openOne = (localAddress: string): Socket => {
    const options = { port, host: "127.0.0.1", localAddress };
    return isTls ? connectTls({ ...options, ALPNProtocols: ["h2"], rejectUnauthorized: false }) : connect(options);
  };
  const ask = isTls ? answeredHttp2 : answered;
  const open = async (): Promise<void> => {
    while (sockets.length < connections) {
      const socket = openOne(`127.0.0.${2 + (sockets.length % addresses)}`);
      sockets.push(socket);
      await ask(socket);
      socket.on("close", () => {
        closed += 1;
      });
    }
  };
  try {
    const first = openOne("127.0.0.1");
    await ask(first);
    first.destroy();
    await sleep(settleMs);
    const emptyBytes = residentBytes(running.pid);
    await Promise.all(Array.from({ length: openedAtOnce }, open));
    await sleep(settleMs);
    const fullBytes = residentBytes(running.pid);
    if (closed > 0) throw new Error(`${contender} closed ${closed} of ${connections} connections`);
    return { kind, contender, round, connections, emptyBytes, fullBytes };
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}

/** Resolves with the whole answer to one GET. */
function answered(socket: Socket): Promise<void> {
  return asked(socket, request, (answer) => {
    if (!answer.endsWith('"}')) return "more";
    return answer.startsWith("HTTP/1.1 200 ") ? "whole" : "wrong";
  });
}

/** The head of a GET over HTTP/2, with indexed fields and literals that are not indexed (RFC 7541, 6). */
const block = "\x82\x87\x04\x08/v2/200b\x01\x09127.0.0.1";
const http2Request = `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0${"\0\0"}${String.fromCharCode(block.length)}\x01\x05\0\0\0\x01${block}`;
const bareAnswer = "answered";

/** Resolves with the frame that ends the response to one GET over HTTP/2, or the answer of whoever has no HTTP/2. */
function answeredHttp2(socket: Socket): Promise<void> {
  return asked(socket, http2Request, (answer) => {
    if (answer === bareAnswer) return "whole";
    for (let at = 0; at + 9 <= answer.length; ) {
      const [high = 0, middle = 0, low = 0, type, flags = 0] = Buffer.from(answer.slice(at, at + 9), "latin1");
      const end = at + 9 + ((high << 16) | (middle << 8) | low);
      if (type === 3 || type === 7) return "wrong";
      const isData = type === 0 && (flags & 1) === 1;
      if (isData && end <= answer.length) return answer.slice(0, end).includes('"data":"') ? "whole" : "wrong";
      at = end;
    }
    return "more";
  });
}

/** `judge`: whether all that has come is the whole answer. */
function asked(socket: Socket, question: string, judge: (answer: string) => "more" | "whole" | "wrong"): Promise<void> {
  return new Promise((resolve, reject) => {
    let answer = "";
    socket.on("data", (chunk) => {
      answer += chunk.toString("latin1");
      const verdict = judge(answer);
      if (verdict === "whole") resolve();
      else if (verdict === "wrong") reject(new Error(`an idle connection was answered with ${JSON.stringify(answer)}`));
    });
    socket.once("error", reject);
    socket.once("close", () => reject(new Error(`a connection was closed after ${answer.length} bytes`)));
    socket.write(question, "latin1");
  });
}
