// The memory that upstream connections are read into is used again, from read to read and from request to request: no
// byte of one client's answer may get into another's, however slowly each is read.
import { createHash, randomBytes } from "node:crypto";
import { createServer } from "node:http";
import { connect, createServer as createTcpServer } from "node:net";
import { expect, test } from "vitest";
import {
  createConnectionResources,
  OutboundConnection,
  type ResponseHandler,
} from "../../src/upstream/outbound-connection.ts";
import { SocketReader } from "../../src/upstream/upstream-socket.ts";
import { useCleanup } from "../support/cleanup.ts";
import { within } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { listen } from "../support/loopback-server.ts";
import { slidingPolicy } from "../support/policy.ts";
import { scaled } from "../support/runs.ts";

const cleanup = useCleanup();
const hash = (bytes: Buffer): string => createHash("sha1").update(bytes).digest("hex");

/** Answers of many lengths, known by their hash, sent whole, in chunks, or in many small pieces. */
async function startUpstream(): Promise<string> {
  const server = createServer((req, res) => {
    const [, lengthText = "0", manner = ""] = /^\/v2\/(\d+)\/(\w+)/.exec(req.url ?? "") ?? [];
    const body = randomBytes(Number(lengthText));
    res.setHeader("X-Hash", hash(body));
    if (manner === "whole") res.setHeader("Content-Length", body.length);
    if (manner !== "pieces") {
      res.end(body);
      return;
    }
    for (let at = 0; at < body.length; at += 3_000) res.write(body.subarray(at, at + 3_000));
    res.end();
  });
  cleanup(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${await listen(server)}`;
}

/** Reads nothing for a while, again and again, so that all buffers on the way are full; or reads as fast as it comes. */
async function fetchRaw(port: number, path: string, isSlow: boolean): Promise<{ told: string; found: string }> {
  const socket = cleanup(connect(port, "127.0.0.1"));
  socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\nConnection: close\r\n\r\n`);
  const chunks: Buffer[] = [];
  let unpausedBytes = 0;
  const rest = (): void => {
    unpausedBytes = 0;
    socket.pause();
    setTimeout(() => socket.resume(), 40);
  };
  if (isSlow) rest();
  socket.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    unpausedBytes += chunk.length;
    if (isSlow && unpausedBytes > 2_000_000) rest();
  });
  await new Promise<void>((resolve, reject) => socket.once("close", () => resolve()).once("error", reject));
  const all = Buffer.concat(chunks);
  const end = all.indexOf("\r\n\r\n");
  const head = all.subarray(0, end).toString("latin1");
  const body = all.subarray(end + 4);
  const told = /\r\nX-Hash: (\w+)/.exec(head)?.[1] ?? head;
  return { told, found: hash(head.includes("Transfer-Encoding: chunked") ? withoutChunks(body) : body) };
}

function withoutChunks(bytes: Buffer): Buffer {
  const pieces: Buffer[] = [];
  for (let at = 0; ; ) {
    const lineEnd = bytes.indexOf("\r\n", at);
    const size = Number.parseInt(bytes.toString("latin1", at, lineEnd), 16);
    if (!(size > 0)) return Buffer.concat(pieces);
    pieces.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 2 + size + 2;
  }
}

/** Two are enough that each manner is read slowly and fast, over connections that were used before. */
const requestsEach = scaled(5, 3);
/** For a third of a gigabyte on a machine that is busy. */
const patientMs = 60_000;

test.each([1, 3])(
  "over %i upstream connections, slow and fast clients get their own bytes",
  {
    timeout: patientMs + 10_000,
  },
  async (connections) => {
    const gateway = await startTestGateway({
      upstreamUrl: await startUpstream(),
      overrides: {
        // One client gets half of them.
        upstream: { maxConnections: 2 * connections, connectTimeoutMs: patientMs },
        policies: [slidingPolicy({ limit: 100_000, windowMs: 60_000 })],
        log: { access: false },
      },
    });
    cleanup(() => gateway.close());
    const manners = ["whole", "chunked", "pieces"];
    // As many wait for a connection as have one.
    const client = async (index: number): Promise<void> => {
      for (let i = 0; i < requestsEach; i += 1) {
        // More than the system keeps between two sockets, or little.
        const isSlow = (index + i) % 3 !== 0;
        const length = isSlow ? 12_000_000 + 104_729 * index : 1 + 30_011 * (index + i);
        const path = `/v2/${length}/${manners[(index + i) % 3]}`;
        const { told, found } = await fetchRaw(gateway.traffic.port, path, isSlow);
        expect([path, found]).toEqual([path, told]);
      }
    };
    const clients = Array.from({ length: 2 * connections }, (_, index) => client(index));
    await within("all are served", Promise.all(clients), patientMs);
  },
);

/** Answers the first request with 300,000 bytes of "0", the second with "1", and so on. */
async function connectToCounting(): Promise<OutboundConnection> {
  let count = 0;
  const server = createTcpServer((socket) => {
    socket.on("error", () => {});
    socket.on("data", () => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n${String(count).repeat(300_000)}`);
      count += 1;
    });
  });
  cleanup(() => void server.close());
  const port = await listen(server);
  const reader = SocketReader.open((onread) => connect({ host: "127.0.0.1", port, onread }), true);
  cleanup(() => void reader.socket.destroy());
  return new OutboundConnection(reader, {
    ...createConnectionResources(),
    responseTimeoutMs: 10_000,
    bodyTimeoutMs: 10_000,
    onClose: () => {},
  });
}

/** Keeps the pieces that `keeps` says, of which `resume` is told that they have left if `isFlushed`. */
function exchange(
  connection: OutboundConnection,
  keeps: (bytesBefore: number) => boolean,
  isFlushed: boolean,
): Promise<Buffer[]> {
  const kept: Buffer[] = [];
  let bytesBefore = 0;
  return new Promise((resolve, reject) => {
    const handler: ResponseHandler = {
      onInterim: () => {},
      onHead: () => {},
      onPacketEnd: () => {},
      onBody: (bytes, from, to) => {
        const isKept = keeps(bytesBefore);
        bytesBefore += to - from;
        if (isKept) kept.push(bytes.subarray(from, to));
        process.nextTick(() => connection.resume(isFlushed));
        return isKept;
      },
      onEnd: () => resolve(kept),
      onUpgrade: () => reject(new Error("no upgrade was asked for")),
      onError: reject,
    };
    connection.send(
      {
        method: "GET",
        start: "GET / HTTP/1.1",
        hasLength: false,
        mayGetLength: false,
        body: null,
        isLast: false,
        upgrade: "",
      },
      handler,
    );
  });
}

test.each([
  ["all of it", () => true],
  ["its beginning", (bytesBefore: number) => bytesBefore < 100_000],
  ["its end", (bytesBefore: number) => bytesBefore > 190_000],
])("a client that still waits for %s keeps its bytes while the connection serves others", async (_, keeps) => {
  const connection = await connectToCounting();
  const kept: Buffer[][] = [];
  for (let i = 0; i < 8; i += 1) {
    const isFlushed = i % 2 === 1;
    // What the others have been given is reclaimed while they have it, and not before they keep something themselves.
    const own = isFlushed ? (bytesBefore: number) => bytesBefore > 70_000 : keeps;
    const pieces = await within("it is answered", exchange(connection, own, isFlushed));
    if (!isFlushed) kept.push(pieces);
    await new Promise((resolve) => setImmediate(resolve));
  }
  const found = kept.map((pieces) => [...new Set(Buffer.concat(pieces))].map((byte) => String.fromCharCode(byte)));
  expect(found).toEqual([["0"], ["2"], ["4"], ["6"]]);
});
