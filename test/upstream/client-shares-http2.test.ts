// The shares of the connections to the upstream hold for streams of HTTP/2 as for connections of HTTP/1.1.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import { answerOf, Http2Client } from "../support/http2-client.ts";
import { metric, upstreamConnections } from "../support/metrics.ts";
import { response, stageRaw } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const withTls = useTls();
const large = 1_000_000;
const [greedy, modest] = ["192.0.2.1", "192.0.2.2"];
const exceeded = 'headgate_client_share_exceeded_total{resource="connections"}';

async function stage() {
  const { ca, overrides } = withTls();
  const clock = new FakeClock();
  const { gateway } = await stageRaw(
    cleanup,
    (socket, data) => {
      const target = /^\S+ (\S+)/.exec(data.toString("latin1"))?.[1];
      if (target === "/v2/other") socket.write(response("ok"));
      else if (target === "/v2/large") socket.write(response("r".repeat(large)));
    },
    {
      ...overrides,
      clientAddress: { trustedProxies: ["127.0.0.1"] },
      // A client that is answered in the middle of its upload is told soon to stop.
      timeouts: { lingerMs: 500 },
      // Two for one client, and the third for another one.
      upstream: { maxConnections: 3, connectTimeoutMs: 30_000 },
    },
    clock,
  );
  const client = new Http2Client(gateway.traffic.port, ca, cleanup);
  const of = (address: string) => ({ "x-forwarded-for": address });
  return {
    gateway,
    clock,
    open: (address: string, options: { path: string; method?: string; body?: string }) =>
      client.open({ ...options, fields: of(address), isOpen: options.body !== undefined }),
    other: () => client.ask({ path: "/v2/other", fields: of("192.0.2.3") }),
    active: (count: number) =>
      eventually(`${count} are active`, async () => (await upstreamConnections(gateway)).active === count),
    waiting: () => eventually("one waits", async () => (await upstreamConnections(gateway)).waiting === 1),
  };
}

test("a slow upload gets 503, and the other client its answer", async () => {
  const { gateway, clock, open, other, active, waiting } = await stage();
  const upload = { path: "/v2/upload", method: "POST", body: "x".repeat(60_000) };
  const first = answerOf(open(greedy, upload));
  await active(1);
  clock.advance(10);
  for (const [i, client] of [greedy, modest].entries()) {
    open(client, upload);
    await active(2 + i);
  }
  const answer = other();
  await waiting();
  clock.advance(1_000);
  expect((await answer).status).toBe(200);
  const refused = await first;
  expect([refused.status, refused.body]).toEqual([
    503,
    expect.stringContaining("This transfer is slow, and other clients wait"),
  ]);
  expect(await metric(gateway, exceeded)).toBe(1);
});

test("a response behind a closed window breaks off, and the other client gets its answer", async () => {
  const { gateway, clock, open, other, active, waiting } = await stage();
  const unread = [greedy, greedy, modest].map((client) => open(client, { path: "/v2/large" }));
  await active(3);
  const codes = unread.map((stream) => new Promise((resolve) => stream.on("close", () => resolve(stream.rstCode))));
  const answer = other();
  await waiting();
  await eventually("one gives up", async () => {
    clock.advance(1_000);
    return (await metric(gateway, exceeded)) === 1;
  });
  expect((await answer).status).toBe(200);
  expect(await Promise.race(codes)).not.toBe(0);
});
