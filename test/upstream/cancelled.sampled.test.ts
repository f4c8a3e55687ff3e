// A client that leaves: its request at the upstream is broken off at once, whatever it had come to, and nothing is left
// behind or opened in its place.
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, inFewTurns } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { upstreamConnections } from "../support/metrics.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { scaled } from "../support/runs.ts";
import { request, response, stageRaw } from "../support/stage.ts";
import { startUnaccepting } from "../support/unavailable.ts";

const cleanup = useCleanup();

/** `/v2/ok` is answered, `/v2/begun` by half, everything else never. Counts the connections. */
async function start() {
  let opened = 0;
  const seen = new Set<Socket>();
  const staged = await stageRaw(
    cleanup,
    (socket, data) => {
      if (!seen.has(socket)) opened += 1;
      seen.add(socket);
      if (data.includes("/v2/ok")) socket.write(response("ok"));
      if (data.includes("/v2/begun")) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf");
    },
    { upstream: { maxConnections: 4 } },
  );
  return { ...staged, opened: () => opened };
}

test.each([
  ["before the response's head", request("/v2/held"), 0],
  ["within the response", request("/v2/begun"), 1],
  ["within the last response of its connection", request("/v2/begun", { fields: "Connection: close\r\n" }), 1],
  ["within its own body", request("/v2/held", { method: "POST", fields: "Content-Length: 9\r\n", body: "half" }), 0],
])("a client that leaves %s: the upstream's connection ends, and no other is opened", async (_, bytes, answers) => {
  const { connect, upstream, gateway } = await start();
  const client = connect().write(bytes);
  await eventually("it is at the upstream", () => upstream.bytes().includes("\r\n\r\n"));
  if (answers > 0) await client.readHead();
  client.destroy();
  await inFewTurns("the upstream's connection ends", () => upstream.sockets.size === 0);
  await eventually("its slot is free", async () => (await upstreamConnections(gateway)).active === 0);
  // A whole exchange later nothing has come in its place but the connection of that exchange.
  expect((await connect().ask(request("/v2/ok"))).status).toBe(200);
  expect(upstream.sockets.size).toBe(1);
  expect((await upstreamConnections(gateway)).idle).toBe(1);
});

/** Of two clients each: far more than there are connections. */
const departures = scaled(50, 7);

test("many clients that leave open no more connections than they had requests", async () => {
  const { connect, upstream, gateway, opened } = await start();
  for (let i = 1; i <= departures; i += 1) {
    const clients = [connect(), connect()];
    for (const client of clients) client.write(request("/v2/held"));
    await eventually("both are at the upstream", () => opened() === 2 * i);
    for (const client of clients) client.destroy();
    await eventually("both have ended", () => upstream.sockets.size === 0);
    await eventually("both slots are free", async () => (await upstreamConnections(gateway)).active === 0);
  }
  expect(opened()).toBe(2 * departures);
  expect(await upstreamConnections(gateway)).toEqual({ active: 0, idle: 0, waiting: 0 });
});

test("a client that leaves while its connection is being opened costs the one that waits for it nothing", async () => {
  const { url, accept } = await startUnaccepting(cleanup);
  const upstream = { maxConnections: 1, connectTimeoutMs: 15_000 };
  const gateway = await startTestGateway({ upstreamUrl: url, overrides: { upstream, drain: { timeoutMs: 0 } } });
  cleanup(() => gateway.close());
  const [leaving, waiting] = [new RawConnection(gateway.traffic.port), new RawConnection(gateway.traffic.port)];
  cleanup(() => waiting.destroy());
  leaving.write(request("/v2/leaving"));
  await eventually("a connection is being opened", async () => (await upstreamConnections(gateway)).active === 1);
  waiting.write(request("/v2/waiting"));
  await eventually("the other waits for it", async () => (await upstreamConnections(gateway)).waiting === 1);
  leaving.destroy();
  await eventually("the gateway knows", () => gateway.logLines.some(({ path }) => path === "/v2/leaving"));
  accept();
  // The kernel tries again every second or so.
  expect((await waiting.read({ deadlineMs: 15_000 })).status).toBe(200);
});
