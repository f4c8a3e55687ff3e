// A response that breaks in the middle breaks for the client too: half a body never looks like a whole one.
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import { upstreamConnections } from "../support/metrics.ts";
import { request, response, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();

const length = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf";
const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n";
const end = (socket: Socket): void => void socket.end();
const reset = (socket: Socket): void => void socket.resetAndDestroy();

test.each([
  ["shorter than its length, closed", length, end],
  ["shorter than its length, reset", length, reset],
  ["chunked without its end, closed", chunked, end],
  ["chunked without its end, reset", chunked, reset],
  ["cut inside a chunk", `${chunked}9\r\nhal`, end],
  ["chunked and then nonsense", chunked, (socket: Socket) => void socket.write("zz\r\n")],
  ["cut before the last line", `${chunked}0\r\n`, end],
])("a response that is %s breaks the client's connection", async (_, bytes, breakOff) => {
  const { upstream, connect, gateway } = await stageRaw(cleanup, (socket) => void socket.write(bytes));
  const client = connect().write(request("/v2/x"));
  expect((await client.readHead()).status).toBe(200);
  await eventually("the first half is there", () => client.rest.includes("half"));
  for (const socket of upstream.sockets) breakOff(socket);
  await within("the connection ends", client.closed);
  expect(client.rest).not.toContain("\r\n0\r\n\r\n");
  expect(client.rest).not.toContain("HTTP/1.1");
  await eventually("its slot is free", async () => (await upstreamConnections(gateway)).active === 0);
  const [logged] = gateway.logLines.filter((line) => line["msg"] === "request");
  expect(logged).toMatchObject({ status: 200, complete: false });
});

test.each([
  ["GET", request("/v2/x")],
  ["POST", request("/v2/x", { method: "POST", fields: "Content-Length: 2\r\n", body: "hi" })],
])("of a response to %s that breaks in its first packet nothing follows the 502", async (_, bytes) => {
  const { connect } = await stageRaw(cleanup, (socket, data) => {
    socket.write(data.includes("/v2/ok") ? response("ok") : `${chunked}zz\r\n`);
  });
  const client = connect();
  expect((await client.ask(bytes)).status).toBe(502);
  expect(await client.ask(request("/v2/ok"))).toMatchObject({ status: 200, body: "ok" });
});

test("what an upstream sends beyond its length is dropped with the connection", async () => {
  const { upstream, connect } = await stageRaw(cleanup, (socket) => void socket.write(`${response("ok")}more`));
  const client = connect();
  for (let i = 1; i <= 3; i += 1) {
    expect(await client.ask(request("/v2/x"))).toMatchObject({ status: 200, body: "ok" });
    expect(client.rest).toBe("");
  }
  await eventually("no connection is kept", () => [...upstream.sockets].every((socket) => socket.destroyed));
});

test("a spare response behind a response is not the answer to the next request on that connection", async () => {
  let requests = 0;
  const { connect } = await stageRaw(
    cleanup,
    (socket) => {
      requests += 1;
      socket.write(response(`answer ${requests}`) + response("spare"));
    },
    { upstream: { maxConnections: 10, connectTimeoutMs: 30_000 } },
  );
  const clients = Array.from({ length: 10 }, () => connect());
  // All at once: one client gets five connections, and five wait for the connections on which something spare has just arrived.
  for (const client of clients) client.write(request("/v2/x"));
  for (const client of clients) expect((await client.read()).body).toMatch(/^answer \d+$/);
});
