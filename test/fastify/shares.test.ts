// The plugin with an upstream shares its connections between clients as the gateway does: test/upstream/client-shares.sampled.test.ts
// has the cases.
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { request, response } from "../support/stage.ts";
import { startRawUpstream } from "../support/upstream.ts";
import { startTestApp } from "./app.ts";

const cleanup = useCleanup();
const of = (client: string): string => `X-Forwarded-For: ${client}\r\n`;
const [a, b, c] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
/** Two of them are for one client, and the third for another one. */
const maxConnections = 3;

async function stage(onData: (socket: Socket, data: Buffer) => void) {
  const upstream = cleanup(await startRawUpstream(onData));
  const clock = new FakeClock();
  const { app, connect } = await startTestApp(cleanup, {
    clock,
    options: {
      routes: ["/v2/"],
      clientAddress: { trustedProxies: ["127.0.0.1"] },
      upstream: { url: upstream.url, maxConnections, connectTimeout: "30s" },
    },
  });
  const metrics = async (): Promise<string> => (await app.headgate.metrics()).body;
  return {
    upstream,
    clock,
    metrics,
    connect,
    are: (state: string, count: number) =>
      eventually(`${count} are ${state}`, async () =>
        (await metrics()).includes(`headgate_upstream_connections{state="${state}"} ${count}\n`),
      ),
  };
}

test("the upload that is idle longest, of the client with the most, loses its connection", async () => {
  const { connect, clock, are, metrics } = await stage((socket, data) => {
    if (data.toString("latin1").startsWith("GET")) socket.write(response("ok"));
  });
  const uploads: RawConnection[] = [];
  for (const [i, client] of [a, a, c].entries()) {
    const fields = `${of(client)}Content-Length: 1000000\r\n`;
    const upload = connect();
    uploads.push(upload);
    upload.write(request("/v2/upload", { method: "POST", fields, body: "x".repeat(70_000) }));
    await are("active", i + 1);
    clock.advance(100);
  }
  const other = connect();
  other.write(request("/v2/other", { fields: of(b) }));
  await are("waiting", 1);
  clock.advance(1_000);
  expect((await other.read()).status).toBe(200);
  const refused = await uploads[0]?.read();
  expect(refused?.status).toBe(503);
  expect(refused?.body).toContain("This transfer is slow, and other clients wait for a connection.");
  expect([uploads[1]?.receivedBytes, uploads[2]?.receivedBytes]).toEqual([0, 0]);
  expect(await metrics()).toContain('headgate_client_share_exceeded_total{resource="connections"} 1\n');
});

test("a client alone waits while a connection is left for others, and a freed one goes to the client that holds the fewest", async () => {
  const order: string[] = [];
  const held: (() => void)[] = [];
  const { connect, are } = await stage((socket, data) => {
    order.push(/^\S+ (\S+)/.exec(data.toString("latin1"))?.[1] ?? "");
    held.push(() => void socket.write(response("ok")));
  });
  const targets = [
    ["/v2/1", a, "active", 1],
    ["/v2/2", a, "active", 2],
    ["/v2/3", a, "waiting", 1],
    ["/v2/4", c, "active", 3],
    ["/v2/5", b, "waiting", 2],
  ] as const;
  for (const [target, client, state, count] of targets) {
    connect().write(request(target, { fields: of(client) }));
    await are(state, count);
  }
  for (let served = 0; served < targets.length; served += 1) {
    await eventually("one is held", () => held.length > 0);
    held.shift()?.();
  }
  expect(order.slice(0, maxConnections).sort()).toEqual(["/v2/1", "/v2/2", "/v2/4"]);
  expect(order.slice(maxConnections)).toEqual(["/v2/5", "/v2/3"]);
});

test("a response that goes on for longer than ten seconds gives its connection up", async () => {
  const { connect, clock, are, metrics } = await stage((socket, data) => {
    if (data.includes("/v2/other")) socket.write(response("ok"));
    else socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n:)\r\n");
  });
  const streams = [a, a, c].map((client) => {
    const stream = connect();
    stream.write(request("/v2/stream", { fields: of(client) }));
    return stream;
  });
  for (const stream of streams) await stream.readHead();
  const other = connect();
  other.write(request("/v2/other", { fields: of(b) }));
  await are("waiting", 1);
  clock.advance(10_600);
  expect((await other.read()).status).toBe(200);
  await Promise.race(streams.map(({ closed }) => closed));
  expect(await metrics()).toContain('headgate_client_share_exceeded_total{resource="connections"} 1\n');
});

test("a client that has left while the app had its request is not proxied, and holds no connection", async () => {
  const upstream = cleanup(await startRawUpstream((socket) => void socket.write(response("ok"))));
  const goOn: (() => void)[] = [];
  const { connect, lines } = await startTestApp(cleanup, {
    before: (app) => {
      app.addHook("preHandler", (request, _reply, done) => {
        if (request.url === "/v2/last") done();
        else goOn.push(done);
      });
    },
    options: { routes: ["/v2/"], upstream: { url: upstream.url, maxConnections } },
  });
  const client = connect().write(request("/v2/gone"));
  await eventually("the app has it", () => goOn.length === 1);
  client.destroy();
  await eventually("it has ended", () => lines.some(({ complete }) => complete === false));
  goOn[0]?.();
  const last = connect();
  expect((await last.ask(request("/v2/last"))).status).toBe(200);
  expect(upstream.bytes()).not.toContain("/v2/gone");
});
