// 200,000 requests over 20,000 connections, a third of which their clients abort at random points: in a head, in a body,
// before or in the middle of a response, with a FIN or a reset. Afterwards nothing is left in the gateway's process: no
// socket, no timer, no memory, and no connection that is still counted. The same with both ways of reading.
import { fork } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually } from "../../support/eventually.ts";
import type { ChildStart, OpenThings } from "../../support/gateway-child.ts";
import { metric } from "../../support/metrics.ts";
import { seededRandom } from "../../support/random.ts";
import { request } from "../../support/stage.ts";

const cleanup = useCleanup();
const connections = 20_000;
const atOnce = 64;
/** Of a connection that is not aborted. With those that are, ten on average. */
const requestsOfConnection = 13;
const largeBytes = 200_000;

async function startUpstream(): Promise<string> {
  const server = createServer((req, res) => {
    req.resume();
    const body = Buffer.alloc(req.url === "/v2/large" ? largeBytes : 100, "x");
    req.on("end", () => res.end(body));
  });
  server.keepAliveTimeout = 60_000;
  cleanup(() => server.closeAllConnections());
  cleanup(() => server.close());
  await once(server.listen(0, "127.0.0.1"), "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function startChild(upstreamUrl: string, reads: "shared" | "streams") {
  const entry = fileURLToPath(new URL("../../support/gateway-child.ts", import.meta.url));
  const child = fork(entry, [upstreamUrl], {
    execArgv: ["--expose-gc"],
    env: { ...process.env, HEADGATE_TEST_READS: reads },
  });
  cleanup(() => child.kill("SIGKILL"));
  const exited = once(child, "exit").then(() => Promise.reject(new Error("the gateway did not start")));
  const [start] = (await Promise.race([once(child, "message"), exited])) as [ChildStart];
  return {
    ...start,
    async openThings(): Promise<OpenThings> {
      child.send("openThings");
      const [things] = (await once(child, "message")) as [OpenThings];
      return things;
    },
  };
}

type Random = () => number;

/** Where and how a client leaves. */
interface Abort {
  readonly request: number;
  readonly place: "sending" | "waiting" | "receiving";
  readonly isReset: boolean;
}

function chooseAbort(random: Random): Abort | null {
  if (random() >= 1 / 3) return null;
  const places = ["sending", "waiting", "receiving"] as const;
  return {
    request: Math.floor(random() * requestsOfConnection),
    place: places[Math.floor(random() * places.length)] ?? "waiting",
    isReset: random() < 0.5,
  };
}

function chooseRequest(random: Random, isLast: boolean): string {
  const fields = isLast ? "Connection: close\r\n" : "";
  const kind = random();
  if (kind < 0.7) return request("/v2/small", { fields });
  if (kind < 0.72) return request("/v2/large", { fields });
  const body = "b".repeat(1 + Math.floor(random() * 6_000));
  return request("/v2/small", { method: "POST", fields: `${fields}Content-Length: ${body.length}\r\n`, body });
}

/** Resolves with the number of requests when the connection is closed. */
function runConnection(port: number, random: Random): Promise<number> {
  const abort = chooseAbort(random);
  const socket = connect({ port, host: "127.0.0.1", noDelay: true }).on("error", () => {});
  let sent = 0;
  let left = 0;
  const next = (): void => {
    const isLast = sent + 1 === requestsOfConnection;
    const text = chooseRequest(random, isLast);
    const isAborted = abort?.request === sent;
    sent += 1;
    left = -1;
    if (isAborted && abort.place === "sending") {
      socket.write(text.slice(0, Math.floor(random() * text.length)), () => leave(socket, abort));
    } else if (random() < 0.1) {
      // In two packets.
      const half = Math.floor(text.length / 2);
      socket.write(text.slice(0, half));
      setImmediate(() => socket.write(text.slice(half)));
    } else socket.write(text);
    if (isAborted && abort.place === "waiting") setImmediate(() => leave(socket, abort));
  };
  socket.once("connect", next);
  socket.on("data", (bytes: Buffer) => {
    if (abort?.request === sent - 1 && abort.place === "receiving") {
      leave(socket, abort);
      return;
    }
    left = left === -1 ? responseBytes(bytes) - bytes.length : left - bytes.length;
    if (left === 0 && sent < requestsOfConnection) next();
  });
  return new Promise((resolve) => socket.once("close", () => resolve(sent)));
}

function leave(socket: Socket, { isReset }: Abort): void {
  if (isReset) socket.resetAndDestroy();
  else socket.destroy();
}

/** Of the response that begins here; the gateway writes a head in one piece. */
function responseBytes(first: Buffer): number {
  const head = first.toString("latin1", 0, first.indexOf("\r\n\r\n") + 4);
  return head.length + Number(/\r\nContent-Length: (\d+)/i.exec(head)?.[1]);
}

async function churn(port: number, count: number, random: Random): Promise<number> {
  let begun = 0;
  let requests = 0;
  const run = async (): Promise<void> => {
    while (begun < count) {
      begun += 1;
      const sent = await runConnection(port, random);
      requests += sent;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, run));
  return requests;
}

test.each(["shared", "streams"] as const)(
  "nothing is left of 20,000 connections, read as %s",
  async (reads) => {
    const random = seededRandom(15);
    const gateway = await startChild(await startUpstream(), reads);
    expect(await metric(gateway, "headgate_shared_reads")).toBe(reads === "shared" ? 1 : 0);
    /** When the clients and their requests are gone. The connections to the upstream stay. */
    const rest = async (): Promise<OpenThings> => {
      const isZero = async (name: string) => (await metric(gateway, name)) === 0;
      await eventually("no client is connected", () => isZero("headgate_client_connections"), 10_000);
      await eventually("no request", () => isZero('headgate_upstream_connections{state="active"}'), 10_000);
      const idle = await metric(gateway, 'headgate_upstream_connections{state="idle"}');
      const { resources, heapBytes } = await gateway.openThings();
      const { TCPSocketWrap: sockets = 0, ...others } = resources;
      // A few are those of the scrapes.
      expect(sockets - idle).toBeLessThanOrEqual(4);
      return { resources: others, heapBytes };
    };
    // Code is compiled, and the memory of connections to the upstream is there.
    await churn(gateway.port, 2_000, random);
    const before = await rest();
    const requests = await churn(gateway.port, connections, random);
    expect(requests).toBeGreaterThan(200_000);
    const after = await rest();
    for (const [kind, count] of Object.entries(after.resources)) {
      // Timers of the process itself come and go.
      expect(count - (before.resources[kind] ?? 0), kind).toBeLessThanOrEqual(2);
    }
    // 100 bytes for each connection would be 2 MB.
    expect(after.heapBytes - before.heapBytes).toBeLessThan(1_500_000);
  },
  240_000,
);
