// What a slow peer costs in memory: nothing that grows with the size of the body, in either direction. Measured as the
// resident memory of a gateway in a process of its own. V8 lets some 64 MiB of pieces that are done with lie before it
// collects them; two bodies of 64 MiB each way bring that about first, and what is more than that would be buffering.
import { connect, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-process.ts";
import { listen } from "../support/loopback-server.ts";
import { fifth } from "../support/runs.ts";
import { pour, readSlowly } from "../support/slow-peer.ts";
import { request } from "../support/stage.ts";

const cleanup = useCleanup();
const mib = 1024 * 1024;
/** Far more than may be added: 1 GiB in test:nightly. */
const long = fifth(1024);
/** Far below what loopback carries, so that the peer is slow. */
const bytesPerSecond = 80 * mib;

/** Answers GET /v2/N with N bytes as fast as they are taken; reads a POST's body slowly, and answers when it is there. */
async function startUpstream(): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    let head = "";
    let bodyBytes = 0;
    readSlowly(socket, bytesPerSecond, (data) => {
      const isHead = !head.includes("\r\n\r\n");
      if (isHead) head += data.toString("latin1");
      else bodyBytes += data.length;
      const end = head.indexOf("\r\n\r\n");
      if (end === -1) return;
      if (isHead) bodyBytes = head.length - end - 4;
      const asked = /^GET \/v2\/(\d+)/.exec(head)?.[1];
      const wanted = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
      if (bodyBytes < wanted) return;
      head = "";
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${asked ?? 0}\r\n\r\n`);
      if (asked !== undefined) pour(socket, Number(asked));
    });
  });
  cleanup(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${await listen(server)}`;
}

async function start(): Promise<GatewayProcess> {
  // One client gets half of the connections to the upstream.
  const settings = ["upstream.maxConnections=400", "maxBodyBytes=2GiB", "log.access=false"];
  return startGatewayProcess(cleanup, await startUpstream(), settings);
}

function open(gateway: GatewayProcess): Socket {
  return cleanup(connect(gateway.port, "127.0.0.1"));
}

function download(gateway: GatewayProcess, bytes: number): Promise<void> {
  const socket = open(gateway);
  socket.write(request(`/v2/${bytes}`, { fields: "Connection: close\r\n" }));
  return new Promise((resolve, reject) => {
    let received = 0;
    readSlowly(socket, bytesPerSecond, (data) => {
      received += data.length;
    });
    socket.on("close", () => (received > bytes ? resolve() : reject(new Error(`only ${received} bytes came`))));
  });
}

function upload(gateway: GatewayProcess, bytes: number): Promise<void> {
  const socket = open(gateway);
  const fields = `Connection: close\r\nContent-Length: ${bytes}\r\n`;
  socket.write(request("/v2/x", { method: "POST", fields }));
  pour(socket, bytes);
  return new Promise((resolve, reject) => {
    let answer = "";
    socket.on("data", (data) => {
      answer += data.toString("latin1");
    });
    socket.on("close", () => (answer.startsWith("HTTP/1.1 200 ") ? resolve() : reject(new Error(answer))));
  });
}

test.each([
  [`a download of ${long} MiB by a slow client`, download],
  [`an upload of ${long} MiB to a slow upstream`, upload],
])("%s adds less than 32 MiB to what a short one takes", async (_, move) => {
  const gateway = await start();
  for (let i = 0; i < 2; i += 1) await move(gateway, 64 * mib);
  const beforeBytes = gateway.memory().peakBytes;
  await within("it is through", move(gateway, long * mib), 100_000);
  const afterBytes = gateway.memory().peakBytes;
  expect((afterBytes - beforeBytes) / mib).toBeLessThan(32);
});

test("200 clients that do not read their answers cost less than 512 KiB each", async () => {
  const gateway = await start();
  await download(gateway, 64 * mib);
  const beforeBytes = gateway.memory().peakBytes;
  const clients = Array.from({ length: 200 }, () => open(gateway));
  for (const client of clients) {
    client.pause();
    client.write(request(`/v2/${64 * mib}`));
  }
  await eventually(
    "all are being answered",
    async () => (await gateway.figures()).get('headgate_upstream_connections{state="active"}') === 200,
    20_000,
  );
  // Whatever can move has moved when nothing is done any more.
  let lastMs = -1;
  await eventually(
    "nothing moves",
    async () => {
      const spentMs = gateway.cpuMs();
      await new Promise((resolve) => setTimeout(resolve, 500));
      const isStill = spentMs - lastMs < 50;
      lastMs = spentMs;
      return isStill;
    },
    20_000,
  );
  expect((gateway.memory().peakBytes - beforeBytes) / clients.length / 1024).toBeLessThan(512);
});
