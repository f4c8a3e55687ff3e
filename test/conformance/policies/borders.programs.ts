// The reset of a calendar quota on every carrier: the second of the border, by the clocks of the system, which are read one
// after the other and rounded.
import { describe, expect, test } from "vitest";
import type { Policy } from "../../../src/core/policy.ts";
import { call, openClient } from "../../ext-auth/grpc/client.ts";
import { shouldRateLimit } from "../../ext-auth/grpc/protocol.ts";
import { rateLimitRequest } from "../../ext-auth/grpc/requests.ts";
import { stageDecision, token } from "../../ext-auth/stage.ts";
import { startTestApp } from "../../fastify/app.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually } from "../../support/eventually.ts";
import { type Overrides, startTestGateway } from "../../support/gateway.ts";
import { Http2Client } from "../../support/http2-client.ts";
import { metric } from "../../support/metrics.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { valuesOf } from "../../support/raw-client.ts";
import type { RawConnection } from "../../support/raw-connection.ts";
import { redisNeeded, skipRedis, startRedis } from "../../support/redis-servers.ts";
import { sharedCounters } from "../../support/shared-settings.ts";
import { request, response, stageHttp, stageRaw } from "../../support/stage.ts";
import { useTls } from "../../support/tls-listener.ts";
import { startUpstream } from "../../support/upstream.ts";

const cleanup = useCleanup();
const withTls = useTls();

/** Some are admitted, the others refused. */
const [requests, limit] = [40, 20];
const minute = { kind: "calendar", per: "minute", timezone: "UTC" } as const;
const policies: readonly Policy[] = [
  { ...slidingPolicy({ limit, windowMs: 1 }), rate: minute },
  { ...slidingPolicy({ limit: 1_000, windowMs: 1 }), name: "everybody", key: [], rate: minute },
];
const overrides: Overrides = { policies, fields: ["standard", "legacy", "structured"] };
const fields = ["RateLimit-Reset", "X-RateLimit-Reset"];

/** How far into its minute each second is that a response names: two resets, and Date with each of two `t`. */
function secondsAfterBorders(rawHeaders: readonly string[]): number[] {
  const dateSeconds = Date.parse(valuesOf(rawHeaders, "Date")[0] ?? "") / 1000;
  const [quotas = ""] = Number.isNaN(dateSeconds) ? [] : valuesOf(rawHeaders, "RateLimit");
  const named = fields.flatMap((name) => valuesOf(rawHeaders, name).map(Number));
  const counted = Array.from(quotas.matchAll(/;t=(\d+)/g), ([, seconds]) => dateSeconds + Number(seconds));
  return [...named, ...counted].map((second) => second % 60);
}

/** `read`: one request. */
async function expectBorders(read: () => Promise<readonly string[]>, named = 4): Promise<void> {
  for (let i = 0; i < requests; i += 1) expect(secondsAfterBorders(await read())).toEqual(Array(named).fill(0));
}

function asking(client: RawConnection, bytes = request("/v2/x")): () => Promise<readonly string[]> {
  return async () => {
    return (await client.ask(bytes)).rawHeaders;
  };
}

const ok = response("ok");

describe("Reset and t name the border of a calendar quota", () => {
  test("on HTTP/1.1, simple and not", async () => {
    const { connect } = await stageHttp(cleanup, undefined, overrides);
    await expectBorders(asking(connect()));
    const chunked = request("/v2/x", { method: "POST", fields: "Transfer-Encoding: chunked\r\n", body: "0\r\n\r\n" });
    await expectBorders(() => asking(connect({ localAddress: "127.0.0.2" }), chunked)());
  });

  test("on HTTP/2", async () => {
    const tls = withTls(overrides);
    const { gateway } = await stageRaw(cleanup, (socket) => void socket.write(ok), tls.overrides);
    const client = new Http2Client(gateway.traffic.port, tls.ca, cleanup);
    await expectBorders(async () => (await client.ask()).rawHeaders);
  });

  test("on the ext-auth listener over HTTP", async () => {
    const { ask } = await stageDecision(cleanup, {}, overrides);
    const asked = `X-Forwarded-For: 192.0.2.1\r\n${token}`;
    await expectBorders(async () => (await ask("/ext-authz/v2/x", asked)).rawHeaders);
  });

  test("on the rate limit service", async () => {
    const upstream = cleanup(await startUpstream());
    const grpc = { host: "127.0.0.1", port: 0, maxConnections: 10 };
    const extAuth = { grpc, trustedCallers: ["127.0.0.1"] };
    const gateway = await startTestGateway({ upstreamUrl: upstream.url, overrides: { extAuth, ...overrides } });
    cleanup(() => gateway.close());
    const client = openClient(cleanup, gateway.grpc?.port ?? 0);
    const entries = Object.entries({ remote_address: "192.0.2.7", path: "/v2/me" });
    const descriptors = [{ entries: entries.map(([key, value]) => ({ key, value })) }];
    await expectBorders(async () => {
      const { message } = await call<{ response_headers_to_add: readonly { key: string; value: string }[] }>(
        client,
        shouldRateLimit,
        rateLimitRequest({}, { descriptors }),
      );
      // Without Date, which Envoy sets.
      return message?.response_headers_to_add.flatMap(({ key, value }) => [key, value]) ?? [];
    }, 2);
  });

  test("in a Fastify app", async () => {
    const policy = { limit, per: "minute" } as const;
    const options = {
      policies: [
        { name: "a", ...policy },
        { name: "b", ...policy, key: [] },
      ],
      fields: ["standard", "legacy", "structured"] as const,
    };
    const app = await startTestApp(cleanup, { options, routes: (server) => server.get("/v2/x", () => "ok") });
    await expectBorders(asking(app.connect()));
  });

  test("of two workers", async () => {
    const { connect } = await stageRaw(cleanup, (socket) => void socket.write(ok), { ...overrides, workers: 2 });
    const clients = Array.from({ length: 8 }, () => asking(connect()));
    let next = 0;
    await expectBorders(() => {
      next += 1;
      return (clients[next % clients.length] as () => Promise<readonly string[]>)();
    });
  });

  test.skipIf(skipRedis)(`with a shared store${redisNeeded}`, async () => {
    const redis = cleanup(await startRedis());
    const counters = sharedCounters(redis.port);
    const { connect, gateway } = await stageRaw(cleanup, (socket) => void socket.write(ok), { ...overrides, counters });
    await eventually("the store is up", async () => (await metric(gateway, 'headgate_store_state{state="up"}')) === 1);
    await expectBorders(asking(connect()));
  });
});
