// What is told of each kind of limit, in each place where it is told: the fields of responses, the caller's own quota, and
// what the admin API knows. Where a request under way may end a refusal, nobody promises an instant.
import { expect, test } from "vitest";
import type { PeriodName, Policy } from "../../../src/core/policy.ts";
import { cleanupOf } from "../../support/cleanup.ts";
import { FakeClock } from "../../support/clock.ts";
import { eventually } from "../../support/eventually.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { valuesOf } from "../../support/raw-client.ts";
import type { FramedResponse } from "../../support/raw-connection.ts";
import { request, response, stageRaw } from "../../support/stage.ts";

const window = slidingPolicy({ limit: 1, windowMs: 60_000 });
const calendar = (per: PeriodName): Policy => ({
  ...window,
  rate: { kind: "calendar", per, timezone: "UTC" },
});

interface Told {
  readonly policy: Policy;
  /** While the one unit is used: of the refusal, of `quota.path`, and of the admin API. */
  readonly retryAfter: string;
  readonly left: number | null;
  readonly item: string;
}

/** In UTC. */
const periods: Readonly<Record<PeriodName, Told>> = {
  minute: { policy: calendar("minute"), retryAfter: "40", left: 40, item: "q=1;w=60 r=0;t=40" },
  hour: { policy: calendar("hour"), retryAfter: "2800", left: 2800, item: "q=1;w=3600 r=0;t=2800" },
  day: { policy: calendar("day"), retryAfter: "6400", left: 6400, item: "q=1;w=86400 r=0;t=6400" },
  month: { policy: calendar("month"), retryAfter: "1388800", left: 1_388_800, item: "q=1 r=0;t=1388800" },
};

// The clock shows 2023-11-14 22:13:20.
const rows: Readonly<Record<string, Told>> = {
  "a window": { policy: window, retryAfter: "60", left: 60, item: "q=1;w=60 r=0;t=60" },
  "a window of 500 ms": {
    policy: { ...window, rate: { kind: "sliding", windowMs: 500 } },
    ...{ retryAfter: "1", left: 1, item: "q=1 r=0;t=1" },
  },
  ...Object.fromEntries(Object.entries(periods).map(([per, told]) => [`a ${per}`, told])),
  slots: {
    policy: { ...window, rate: { kind: "concurrency" } },
    ...{ retryAfter: "1", left: null, item: 'q=1;qu="concurrent-requests" r=0' },
  },
  "units that are held": {
    policy: { ...window, chargeStatuses: [401] },
    ...{ retryAfter: "1", left: null, item: "q=1;w=60 r=0;t=1" },
  },
};

test.concurrent.for(Object.entries(rows))("%s", async ([, { policy, retryAfter, left, item }], context) => {
  const held: (() => void)[] = [];
  const clock = new FakeClock();
  const { gateway, connect } = await stageRaw(
    cleanupOf(context),
    (socket) => void held.push(() => socket.write(response("ok"))),
    { policies: [policy], quota: { path: "/quota" }, fields: ["standard", "legacy", "structured"] },
    clock,
  );
  const ask = async (target: string): Promise<FramedResponse> => {
    const client = connect().write(request(target));
    return client.read();
  };
  connect().write(request("/v2/x"));
  await eventually("it is under way", () => held.length === 1);

  // The second path is not read: it is refused by what is known of the client alone.
  for (const target of ["/v2/x", "/v2/./x"]) {
    const { status, rawHeaders } = await ask(target);
    expect([target, status, ...valuesOf(rawHeaders, "Retry-After")]).toEqual([target, 429, retryAfter]);
    const reset = `${clock.wallMs() / 1000 + Number(retryAfter)}`;
    const [first = "", second = ""] = item.split(" ");
    expect(valuesOf(rawHeaders, "RateLimit-Reset")).toEqual([reset]);
    expect(valuesOf(rawHeaders, "X-RateLimit-Reset")).toEqual([reset]);
    expect(valuesOf(rawHeaders, "RateLimit-Policy")).toEqual([`"per-ip";${first}`]);
    expect(valuesOf(rawHeaders, "RateLimit")).toEqual([`"per-ip";${second}`]);
  }
  const [quota] = JSON.parse((await ask("/quota")).body).policies;
  expect([quota.state, quota.used, quota.resetSeconds]).toEqual(["exhausted", 1, left]);

  const untilMs = policy.rate.kind === "sliding" ? policy.rate.windowMs : Number(retryAfter) * 1000;
  const resetMs = left === null ? null : clock.wallMs() + untilMs;
  const states = await gateway.clients.state({ kind: "client", value: "127.0.0.1" });
  expect(states?.policies[0]?.keys[0]?.resetMs).toBe(resetMs);
  const [listed] = await gateway.clients.list({ policy: null, sort: "used", search: "", limit: 1 });
  expect(listed?.resetMs).toBe(resetMs);
  const tried = await gateway.clients.check({ method: "GET", target: "/v2/x", client: null, rawHeaders: [] });
  expect([tried?.status, tried?.policies[0]?.quota?.resetMs]).toEqual([429, resetMs]);
  held[0]?.();
});
