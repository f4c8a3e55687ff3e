// Clients that hold as many connections to the upstream as they get, by uploads or readers that move a little more than the
// minimum rate, and come back as soon as they are cut off. Beside them one that behaves. The gateway is another process.
import { once } from "node:events";
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { connect as connectTcp, createServer, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import { Authority } from "../../support/certificates.ts";
import type { Cleanup } from "../../support/cleanup.ts";
import { type GatewayProcess, startGatewayProcess } from "../../support/gateway-process.ts";
import { listen } from "../../support/loopback-server.ts";
import { pour } from "../../support/slow-peer.ts";

export const carriers = ["http1", "http2"] as const;
export const kinds = ["upload", "read"] as const;

export interface Attack {
  readonly carrier: (typeof carriers)[number];
  readonly kind: (typeof kinds)[number];
  readonly addresses: number;
  readonly bytesPerSecond: number;
}

export interface Target {
  readonly gateway: GatewayProcess;
  /** Null: no TLS. */
  readonly ca: string | null;
}

/** More than is read of a body before it gets a connection. */
const begun = Buffer.alloc(70_000, "x");
/** Below the largest body. */
const uploadBytes = 9_000_000;
/** More than the buffers of all kernels take. */
const responseBytes = 256 * 1024 * 1024;
/** Of all addresses together: more than there are connections to the upstream. */
const holders = 300;
const againMs = 20;
/** How long an upload of a client that behaves goes on. */
const uploadMs = 20_000;

/** In front of an upstream that answers at once, and reads and writes as fast as it can. */
export async function startTarget(cleanup: Cleanup, carrier: Attack["carrier"], settings: readonly string[]) {
  const upstream = createServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", (data: Buffer) => {
      const text = data.toString("latin1");
      if (text.startsWith("GET /v1/large")) {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${responseBytes}\r\n\r\n`);
        pour(socket, responseBytes);
      } else if (text.startsWith("GET")) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
  });
  const port = await listen(cleanup(upstream));
  let ca: string | null = null;
  const all = ["auth.mode=off", "log.access=false", ...settings];
  if (carrier === "http2") {
    const authority = new Authority(cleanup);
    const { certFile, keyFile } = authority.issue();
    ca = authority.cert;
    all.push(`listen.tls.cert=${certFile}`, `listen.tls.key=${keyFile}`);
  }
  return { gateway: await startGatewayProcess(cleanup, `http://127.0.0.1:${port}`, all), ca };
}

/** Goes on until the cleanup. Returns how often a holder was cut off so far. */
export function attack(cleanup: Cleanup, { gateway, ca }: Target, options: Attack): () => number {
  const { kind, addresses, bytesPerSecond } = options;
  let cuts = 0;
  let isOver = false;
  const open = new Set<Duplex>();
  const hold = (holder: number): void => {
    if (isOver) return;
    const at = { port: gateway.port, localAddress: addressOf(holder % addresses) };
    const stream = ca === null ? openHttp1(at, kind) : openHttp2(at, ca, kind);
    open.add(stream);
    stream.on("error", () => {});
    stream.on("close", () => {
      open.delete(stream);
      cuts += 1;
      setTimeout(hold, againMs, holder);
    });
  };
  // A few each millisecond: the backlog of a listener is short.
  for (let holder = 0; holder < holders; holder += 1) setTimeout(hold, holder * 3, holder);
  const timer = setInterval(() => {
    for (const stream of open) {
      if (kind === "read") stream.read(Math.min(bytesPerSecond, stream.readableLength));
      else if (stream.writableLength < 2 * bytesPerSecond) stream.write(begun.subarray(0, bytesPerSecond));
    }
  }, 1_000);
  cleanup(() => {
    isOver = true;
    clearInterval(timer);
    for (const stream of open) stream.destroy();
  });
  return () => cuts;
}

interface From {
  readonly port: number;
  readonly localAddress: string;
}

function openHttp1(at: From, kind: Attack["kind"]): Socket {
  const socket = connectTcp({ host: "127.0.0.1", ...at });
  socket.pause();
  const head = "HTTP/1.1\r\nHost: api.test\r\n";
  if (kind === "read") socket.write(`GET /v1/large ${head}\r\n`);
  else {
    socket.write(`POST /v1/upload ${head}Content-Length: ${uploadBytes}\r\n\r\n`);
    socket.write(begun);
    socket.resume();
  }
  return socket;
}

/** Each on a connection of its own: what one of them does not read would hold up the others. */
function openHttp2(at: From, ca: string, kind: Attack["kind"]): Duplex {
  const session = sessionTo(at, ca);
  const head =
    kind === "read"
      ? { ":path": "/v1/large" }
      : { ":method": "POST", ":path": "/v1/upload", "content-length": uploadBytes };
  const stream = session.request(head, { endStream: kind === "read" });
  if (kind === "upload") {
    stream.write(begun);
    stream.resume();
  }
  stream.on("close", () => session.destroy());
  session.on("close", () => stream.destroy());
  return stream;
}

function sessionTo({ port, localAddress }: From, ca: string): ClientHttp2Session {
  const address = { host: "127.0.0.1", localAddress };
  const session = connectHttp2(`https://127.0.0.1:${port}`, { ca, servername: "localhost", ...address });
  session.on("error", () => {});
  return session;
}

/** 127.0.1.1 and so on. */
const addressOf = (index: number): string => `127.0.${1 + Math.floor(index / 250)}.${1 + (index % 250)}`;

export interface Answer {
  /** 0: none. */
  readonly status: number;
  readonly tookMs: number;
}

/** The requests of one client that behaves, one after the other, each on a connection of its own. */
export async function askHonestly({ gateway, ca }: Target, requests: number): Promise<Answer[]> {
  const at = { port: gateway.port, localAddress: "127.0.0.9" };
  const answers: Answer[] = [];
  for (let i = 0; i < requests; i += 1) {
    const beganMs = performance.now();
    const status = await (ca === null ? askHttp1(at) : askHttp2(at, ca)).catch(() => 0);
    answers.push({ status, tookMs: performance.now() - beganMs });
  }
  return answers;
}

/**
 * Uploads of as many other clients over slow lines, all at the same time. Resolves with how many could send all of it.
 */
export async function uploadHonestly({ gateway, ca }: Target, count: number, bytesPerSecond: number): Promise<number> {
  const uploads = Array.from({ length: count }, async (_, i) => {
    const tcp = connectTcp({ host: "127.0.0.1", port: gateway.port, localAddress: `127.0.9.${i + 1}` });
    const socket = ca === null ? tcp : connectTls({ socket: tcp, ca, servername: "localhost" });
    socket.on("error", () => {});
    const head = `POST /v1/upload HTTP/1.1\r\nHost: api.test\r\nContent-Length: ${uploadBytes}\r\n\r\n`;
    socket.write(head);
    socket.write(begun);
    // As a line of this rate passes segments on.
    const timer = setInterval(() => void socket.write(begun.subarray(0, bytesPerSecond / 8)), 125);
    const isCut = await Promise.race([once(socket, "data").then(() => true), sleep(uploadMs).then(() => false)]);
    clearInterval(timer);
    socket.destroy();
    return isCut ? 0 : 1;
  });
  return (await Promise.all(uploads)).reduce<number>((sum, each) => sum + each, 0);
}

async function askHttp1(at: From): Promise<number> {
  const socket = connectTcp({ host: "127.0.0.1", ...at });
  socket.write("GET /v1/quick HTTP/1.1\r\nHost: api.test\r\n\r\n");
  const [data] = await once(socket, "data");
  socket.destroy();
  return Number(String(data).slice(9, 12));
}

async function askHttp2(at: From, ca: string): Promise<number> {
  const session = sessionTo(at, ca);
  const stream = session.request({ ":path": "/v1/quick" });
  const [head] = await once(stream, "response");
  session.destroy();
  return head[":status"];
}
