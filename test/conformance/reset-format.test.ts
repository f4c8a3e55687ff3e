// `resetFormat` where no request is carried, and after a reload, which changes the form at once. Every other carrier is in
// every-carrier.test.ts.
import { expect, test } from "vitest";
import type { ResetFormat } from "../../src/core/response-fields.ts";
import { call, openClient } from "../ext-auth/grpc/client.ts";
import { shouldRateLimit } from "../ext-auth/grpc/protocol.ts";
import { rateLimitRequest } from "../ext-auth/grpc/requests.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { testSettings } from "../support/gateway.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request, stageHttp } from "../support/stage.ts";

const cleanup = useCleanup();
const clock = new FakeClock();

async function start(resetFormat: ResetFormat) {
  const overrides = {
    ...{ resetFormat, drain: { timeoutMs: 0 }, policies: [slidingPolicy({ limit: 1, windowMs: 60_000 })] },
    extAuth: { grpc: { host: "127.0.0.1", port: 0, maxConnections: 10 }, trustedCallers: ["127.0.0.1"] },
  };
  const { upstream, gateway } = await stageHttp(cleanup, undefined, overrides, clock);
  return { gateway, settings: testSettings(upstream.url, overrides) };
}

test.each(["epoch", "delta"] as const)("Envoy's questions about the quota, %s", async (resetFormat) => {
  const { gateway } = await start(resetFormat);
  const client = openClient(cleanup, gateway.grpc?.port ?? 0);
  const reset = resetFormat === "epoch" ? `${clock.wallMs() / 1000 + 60}` : "60";
  // Admitted, then refused.
  for (let asked = 0; asked < 2; asked += 1) {
    const text = JSON.stringify((await call(client, shouldRateLimit, rateLimitRequest())).message);
    const resets = text.matchAll(/"key":"(?:x-)?ratelimit-reset","value":"(\d+)"/g);
    expect(Array.from(resets, ([, value]) => value)).toEqual([reset, reset]);
  }
});

test("a reload changes the form at once, on open connections too", async () => {
  const { gateway, settings } = await start("epoch");
  const client = cleanup(new RawConnection(gateway.traffic.port));
  const epoch = `${clock.wallMs() / 1000 + 60}`;
  const resetsIn = (fields: readonly string[]) =>
    ["RateLimit-Reset", "X-RateLimit-Reset"].flatMap((name) => valuesOf(fields, name));
  for (const [resetFormat, reset] of [["epoch", epoch] as const, ["delta", "60"] as const, ["epoch", epoch] as const]) {
    expect((await gateway.reload({ ...settings, resetFormat })).ok).toBe(true);
    expect(resetsIn((await client.ask(request("/v2/x"))).rawHeaders)).toEqual([reset, reset]);
  }
});
