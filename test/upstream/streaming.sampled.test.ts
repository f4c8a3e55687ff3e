// Bodies pass through, they do not stay: the first byte arrives before the last is sent, and a side that does not read
// stops the side that writes. What is measured is how far the fast side got, within the buffers of two sockets.
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually, turns } from "../support/eventually.ts";
import { upstreamConnections } from "../support/metrics.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { scaled } from "../support/runs.ts";
import { request, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();
const totalBytes = 64 * 1024 * 1024;
/** Four kernel buffers of at most 6 MiB and the process's own; without backpressure it would be all 64. */
const boundBytes = 40 * 1024 * 1024;
/** For all of it on a machine that is busy. */
const patientMs = 30_000;
const timeout = 60_000;

test.each([
  ["with a length", "Content-Length: 8\r\n", ["one ", "two "], "one two ", "Content-Length: 8"],
  ["chunked", "Transfer-Encoding: chunked\r\n", ["4\r\none \r\n", "4\r\ntwo \r\n0\r\n\r\n"], "two ", ""],
])("a request's body %s arrives piece by piece", async (_, fields, [first = "", second = ""]) => {
  const { upstream, connect } = await stageRaw(cleanup, (socket) => {
    if (upstream.bytes().includes("two ")) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  });
  const client = connect().write(request("/v2/x", { method: "POST", fields, body: first }));
  await eventually("the first piece is at the upstream", () => upstream.bytes().includes("one "));
  expect(upstream.bytes()).not.toContain("two ");
  expect((await client.ask(second)).status).toBe(200);
});

test.each([
  ["with a length", "Content-Length: 8\r\n", ["one ", "two "]],
  ["chunked", "Transfer-Encoding: chunked\r\n", ["4\r\none \r\n", "4\r\ntwo \r\n0\r\n\r\n"]],
  ["ended by the close", "", ["one ", "two "]],
])("a response %s arrives piece by piece, its head before its body", async (_, fields, [first = "", second = ""]) => {
  const { upstream, connect } = await stageRaw(
    cleanup,
    (socket) => void socket.write(`HTTP/1.1 200 OK\r\n${fields}\r\n`),
  );
  const client = connect().write(request("/v2/x"));
  expect((await client.readHead()).status).toBe(200);
  expect(client.rest).toBe("");
  const [socket] = upstream.sockets;
  socket?.write(first);
  await eventually("the first piece is there", () => client.rest.includes("one "));
  expect(client.rest).not.toContain("two ");
  if (fields === "") socket?.end(second);
  else socket?.write(second);
  await eventually("the second piece is there", () => client.rest.includes("two "));
  if (fields !== "Content-Length: 8\r\n") await eventually("it ends", () => client.rest.endsWith("\r\n0\r\n\r\n"));
});

/** Writes as fast as the socket takes it; returns how far it got. */
function pour(socket: Socket): () => number {
  const piece = Buffer.alloc(64 * 1024, "x");
  let written = 0;
  const more = (): void => {
    while (written < totalBytes) {
      written += piece.length;
      if (!socket.write(piece)) {
        socket.once("drain", more);
        return;
      }
    }
  };
  more();
  return () => written - socket.writableLength;
}

/** Waits until a figure has stopped growing for a while. */
async function settled(figure: () => number): Promise<number> {
  let last = -1;
  let since = performance.now();
  await eventually(
    "it has stopped growing",
    () => {
      if (figure() !== last) since = performance.now();
      last = figure();
      return performance.now() - since > 300;
    },
    patientMs,
  );
  return last;
}

async function readAll(client: RawConnection): Promise<void> {
  let received = 0;
  client.socket.removeAllListeners("data");
  client.socket.on("data", (data) => {
    received += data.length;
  });
  client.socket.resume();
  await eventually("all of it has arrived", () => received >= totalBytes, patientMs);
}

test("a client that does not read stops the upstream, and reads all of it later", { timeout }, async () => {
  let progress: (() => number) | undefined;
  const { connect, gateway } = await stageRaw(cleanup, (socket) => {
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${totalBytes}\r\n\r\n`);
    progress = pour(socket);
  });
  const client = connect();
  client.socket.pause();
  client.write(request("/v2/x"));
  await eventually("the response has begun", () => progress !== undefined);
  expect(await settled(() => progress?.() ?? 0)).toBeLessThan(boundBytes);
  await readAll(client);
  await eventually("the connection is free", async () => (await upstreamConnections(gateway)).active === 0);
});

test("an upstream that does not read stops the client, and reads all of it later", { timeout }, async () => {
  const maxBodyBytes = totalBytes;
  let received = 0;
  let isReading = false;
  const { connect, upstream } = await stageRaw(
    cleanup,
    (socket, data) => {
      received += data.length;
      if (!isReading) socket.pause();
      if (received > totalBytes) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    },
    { maxBodyBytes },
  );
  const client = connect().write(request("/v2/x", { method: "POST", fields: `Content-Length: ${totalBytes}\r\n` }));
  const progress = pour(client.socket);
  expect(await settled(progress)).toBeLessThan(boundBytes);
  isReading = true;
  for (const socket of upstream.sockets) socket.resume();
  expect((await client.read({ deadlineMs: patientMs })).status).toBe(200);
});

test("a client that stops reading for good is cut off, and the upstream's connection with it", async () => {
  let isStreaming = false;
  const { connect, gateway } = await stageRaw(
    cleanup,
    (socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${totalBytes}\r\n\r\n`);
      pour(socket);
      isStreaming = true;
    },
    { timeouts: { bodyMs: 200 } },
  );
  const client = connect();
  client.socket.pause();
  client.write(request("/v2/x"));
  await eventually("it is streaming", () => isStreaming);
  // Long before the upstream's time is up.
  await eventually("the slot is free", async () => (await upstreamConnections(gateway)).active === 0, 10_000);
});

test("a client that reads slowly but steadily is never cut off", { timeout }, async () => {
  const patienceMs = 400;
  const clock = new FakeClock();
  let progress: (() => number) | undefined;
  const { connect } = await stageRaw(
    cleanup,
    (socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${totalBytes}\r\n\r\n`);
      progress = pour(socket);
    },
    { timeouts: { bodyMs: patienceMs }, upstream: { responseTimeoutMs: patienceMs, bodyTimeoutMs: patienceMs } },
    clock,
  );
  const client = connect();
  client.socket.pause();
  client.write(request("/v2/x"));
  await eventually("the response has begun", () => progress !== undefined);
  const far = (): number => progress?.() ?? 0;
  await settled(far);
  let received = 0;
  let isSlow = true;
  client.socket.removeAllListeners("data");
  client.socket.on("data", (data) => {
    received += data.length;
    if (isSlow) client.socket.pause();
  });
  for (let round = 0; round < scaled(10, 3); round += 1) {
    // Less than its patience, of which each piece that moves gives all back.
    clock.advance(patienceMs / 2);
    const before = far();
    await eventually("the kernel's buffers let the next piece through", async () => {
      for (let turn = 0; turn < 20 && far() === before; turn += 1) {
        client.socket.resume();
        await turns(1);
      }
      return far() > before;
    });
  }
  // The timers run on the machine's time: they look at what is left of its patience, and find all of it.
  const stoppedMs = performance.now();
  await eventually("the timeouts have passed", () => performance.now() - stoppedMs > 1.5 * patienceMs);
  expect(client.ending).toBeNull();
  expect(received).toBeLessThan(boundBytes);
  isSlow = false;
  client.socket.resume();
  await eventually("all of it has arrived", () => received > totalBytes, patientMs);
});
