// `resetFormat: delta`: on every carrier both Reset headers are the seconds that remain, on what is admitted, refused and
// outside of the routes. A reload changes the form at once.
import { expect, test } from "vitest";
import type { ResetFormat } from "../../src/core/response-fields.ts";
import { call, openClient } from "../ext-auth/grpc/client.ts";
import { check, type Method, shouldRateLimit } from "../ext-auth/grpc/protocol.ts";
import { checkRequest, rateLimitRequest } from "../ext-auth/grpc/requests.ts";
import { startTestApp } from "../fastify/app.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { startTestGateway, type TestGateway, testSettings } from "../support/gateway.ts";
import { Http2Client } from "../support/http2-client.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const withTls = useTls();
const clock = new FakeClock();

async function start(resetFormat: ResetFormat, isTls = false) {
  const upstream = await startUpstream();
  cleanup(() => upstream.close());
  const listener = { host: "127.0.0.1", port: 0, maxConnections: 10 };
  const { ca, overrides } = withTls({
    ...{ resetFormat, drain: { timeoutMs: 0 }, policies: [slidingPolicy({ limit: 1, windowMs: 60_000 })] },
    extAuth: { http: listener, grpc: listener, trustedCallers: ["127.0.0.1"] },
  });
  const all = isTls ? overrides : { ...overrides, listen: {} };
  const gateway = await startTestGateway({ upstreamUrl: upstream.url, clock, overrides: all });
  cleanup(() => gateway.close());
  return { gateway, ca, settings: testSettings(upstream.url, all) };
}

/** Returns the values of both Reset headers. */
type Ask = () => Promise<readonly string[]>;

const resetsIn = (fields: readonly string[]) =>
  ["RateLimit-Reset", "X-RateLimit-Reset"].flatMap((name) => valuesOf(fields, name));

/** Each time on a connection of its own. */
const over = (port: number, bytes: string): Ask => {
  return async () => {
    const client = new RawConnection(port);
    cleanup(() => client.destroy());
    client.write(bytes);
    return resetsIn((await client.read()).rawHeaders);
  };
};

function overGrpc({ grpc }: TestGateway, method: Method, asked: object): Ask {
  const client = openClient(cleanup, grpc?.port ?? 0);
  return async () => {
    const text = JSON.stringify((await call(client, method, asked)).message);
    return Array.from(text.matchAll(/"key":"(?:x-)?ratelimit-reset","value":"(\d+)"/g), ([, value = ""]) => value);
  };
}

const ofCheck = "X-Original-Method: GET\r\nX-Original-URI: /v2/x\r\nX-Forwarded-For: 192.0.2.1\r\n";

const carriers: Readonly<Record<string, (resetFormat: ResetFormat) => Promise<Ask>>> = {
  "HTTP/1.1": async (resetFormat) => over((await start(resetFormat)).gateway.traffic.port, request("/v2/x")),
  "HTTP/1.1, outside of the routes": async (resetFormat) => {
    const { traffic } = (await start(resetFormat)).gateway;
    await over(traffic.port, request("/v2/x"))();
    return over(traffic.port, request("/elsewhere"));
  },
  "HTTP/2": async (resetFormat) => {
    const { gateway, ca } = await start(resetFormat, true);
    const client = new Http2Client(gateway.traffic.port, ca, cleanup);
    return async () => resetsIn((await client.ask()).rawHeaders);
  },
  "checks over HTTP": async (resetFormat) => {
    const { gateway } = await start(resetFormat);
    return over(gateway.extAuth?.port ?? 0, request("/auth-request", { fields: ofCheck }));
  },
  "checks over gRPC": async (resetFormat) => overGrpc((await start(resetFormat)).gateway, check, checkRequest()),
  "quotas over gRPC": async (resetFormat) =>
    overGrpc((await start(resetFormat)).gateway, shouldRateLimit, rateLimitRequest()),
  "the plugin": async (resetFormat) => {
    const { port } = await startTestApp(cleanup, {
      clock,
      options: { resetFormat, policies: [{ name: "per-ip", limit: 1, window: "60s" }] },
      routes: (app) => void app.get("/x", async () => "ok"),
    });
    return over(port, request("/x"));
  },
};

test.each(Object.entries(carriers))("over %s", async (_, ask) => {
  const [asEpoch, asDelta] = [await ask("epoch"), await ask("delta")];
  const second = clock.wallMs() / 1000 + 60;
  // Admitted, then refused.
  for (const passedMs of [0, 18_500]) {
    clock.advance(passedMs);
    expect(await asEpoch()).toEqual([`${second}`, `${second}`]);
    const left = `${Math.ceil(60 - passedMs / 1000)}`;
    expect(await asDelta()).toEqual([left, left]);
  }
  clock.advance(81_500);
});

test("a reload changes the form at once, on open connections too", async () => {
  const { gateway, settings } = await start("epoch");
  const client = new RawConnection(gateway.traffic.port);
  cleanup(() => client.destroy());
  const epoch = `${clock.wallMs() / 1000 + 60}`;
  for (const [resetFormat, reset] of [["epoch", epoch] as const, ["delta", "60"] as const, ["epoch", epoch] as const]) {
    expect((await gateway.reload({ ...settings, resetFormat })).ok).toBe(true);
    client.write(request("/v2/x"));
    expect(resetsIn((await client.read()).rawHeaders)).toEqual([reset, reset]);
  }
});
