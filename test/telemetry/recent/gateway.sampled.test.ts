// What the real gateway remembers of the last minutes, with one thread and with two.
import { BroadcastChannel } from "node:worker_threads";
import { expect, test } from "vitest";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import type { Settings } from "../../../src/core/settings.ts";
import type { HistoryStep } from "../../../src/telemetry/recent/history.ts";
import type { RefusalSample } from "../../../src/telemetry/recent/recent.ts";
import type { RefusedRequest } from "../../../src/telemetry/recent/refused-request.ts";
import { stepMs } from "../../../src/telemetry/recent/steps.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { clockOf, FakeClock } from "../../support/clock.ts";
import { eventually } from "../../support/eventually.ts";
import { type Overrides, startTestGateway, type TestGateway, testSettings } from "../../support/gateway.ts";
import { metric } from "../../support/metrics.ts";
import { inFull, threadCounts } from "../../support/runs.ts";
import { startUpstream } from "../../support/upstream.ts";
import { faultChannel } from "../../workers/faulty-thread.ts";

const cleanup = useCleanup();
const limit = 3;

async function start(workers: number, overrides: Overrides = {}, clock?: Clock) {
  const upstream = cleanup(await startUpstream());
  const all: Overrides = { workers, ...overrides };
  const settings = testSettings(upstream.url, all);
  const policies = settings.policies.map((policy) => ({ ...policy, limit }));
  const gateway = await startTestGateway({
    upstreamUrl: upstream.url,
    overrides: { ...all, policies },
    threadEntry: new URL("../../workers/faulty-thread.ts", import.meta.url),
    ...(clock === undefined ? {} : { clock }),
  });
  cleanup(() => gateway.close());
  return { gateway, settings: { ...settings, policies } };
}

/** Over a connection of its own, so that any thread may get it. */
async function ask(gateway: TestGateway, target = "/v2/me", headers: Record<string, string> = {}): Promise<Response> {
  const own = { authorization: "Bearer secret-token", connection: "close", ...headers };
  const response = await fetch(`${gateway.url}${target}`, { headers: own });
  await response.arrayBuffer();
  return response;
}

const idOf = ({ headers }: Response): string => headers.get("x-request-id") ?? "";
/** A thread hands over what it has refused once a second. */
async function found(gateway: TestGateway, response: Response): Promise<RefusedRequest | null> {
  let refusal: RefusedRequest | null = null;
  await eventually("the refusal is found", () => {
    refusal = gateway.recent.request(idOf(response));
    return refusal !== null;
  });
  return refusal;
}

/** Resolves when all refusals of a policy are known. */
async function counted(gateway: TestGateway, times: number): Promise<void> {
  const sum = () => gateway.recent.refused("per-ip").keys.reduce((all, { count }) => all + count, 0);
  await eventually("all refusals are counted", () => sum() === times);
}

const numberOf = ({ headers }: Response, name: string): number => Number(headers.get(name) ?? Number.NaN);

test.each(threadCounts)(
  "with %i workers, a refused request is found by its id with all facts, and an admitted one is not",
  async (workers) => {
    const { gateway } = await start(workers);
    const admitted = await Promise.all(Array.from({ length: limit }, () => ask(gateway)));
    const lost = await ask(gateway, "/v9/none");
    const refused = await Promise.all(Array.from({ length: 8 }, (_, i) => ask(gateway, `/v2/tags/${i}?token=secret`)));
    expect([admitted, refused].map((all) => new Set(all.map(({ status }) => status)))).toEqual([
      new Set([200]),
      new Set([429]),
    ]);
    await counted(gateway, refused.length);
    for (const response of admitted) expect(gateway.recent.request(idOf(response))).toBe(null);
    const key = { a: 0, b: 0, c: 0xffff, d: 0x7f000001, isAddress: true };
    let known = 0;
    for (const [i, response] of refused.entries()) {
      const refusal = gateway.recent.request(idOf(response));
      if (refusal === null) continue;
      known += 1;
      expect(refusal).toEqual({
        ...{
          id: idOf(response),
          requestId: null,
          atMs: expect.any(Number),
          source: "proxy",
          method: "GET",
          target: `/v2/tags/${i}`,
        },
        ...{
          route: "/v2/",
          client: "127.0.0.1",
          clientKey: key,
          subject: null,
          status: 429,
          reason: "throttled",
          policy: "per-ip",
          key,
        },
        ...{
          limit,
          remaining: 0,
          reset: numberOf(response, "ratelimit-reset"),
          rule: null,
          brokenRule: null,
          fault: null,
        },
        retryAfterSeconds: numberOf(response, "retry-after"),
      });
      expect(Math.abs(Number(refusal?.atMs) - Date.now())).toBeLessThan(60_000);
      expect(JSON.stringify(refusal)).not.toContain("secret");
    }
    // Of each client the first five in a second are kept.
    expect(known).toBeGreaterThanOrEqual(4);
    expect(await found(gateway, lost)).toMatchObject({
      ...{
        status: 404,
        reason: "no_route",
        target: "/v9/none",
        route: null,
        policy: "per-ip",
        retryAfterSeconds: null,
      },
      ...{ limit, remaining: numberOf(lost, "ratelimit-remaining"), reset: numberOf(lost, "ratelimit-reset") },
    });
    const { keys, sinceMs } = gateway.recent.refused("per-ip");
    expect(keys).toEqual([{ key, count: 8, error: 0, seen: null }]);
    expect(Math.abs(sinceMs - Date.now())).toBeLessThan(60_000);
    expect(await metric(gateway, 'headgate_recent_bytes{part="refusals"}')).toBeGreaterThan(3_000);
    expect(await metric(gateway, 'headgate_recent_bytes{part="keys"}')).toBeGreaterThan(100);
    expect(await metric(gateway, 'headgate_recent_bytes{part="history"}')).toBeGreaterThan(100_000);
  },
);

test.each(threadCounts)(
  "with %i workers, a listener gets a sample, and a reload of the sizes reaches all threads",
  async (workers) => {
    const { gateway, settings } = await start(workers);
    const samples: RefusalSample[] = [];
    const end = gateway.recent.onRefusal((sample) => samples.push(sample));
    await Promise.all(Array.from({ length: limit + 20 }, () => ask(gateway)));
    const told = () => samples.reduce((sum, { refusals, leftOut }) => sum + refusals.length + leftOut, 0);
    await eventually("all refusals are told", () => told() === 20);
    end();
    expect(samples.every(({ refusals }) => refusals.length <= 10)).toBe(true);
    const admin = { ...settings.admin, recent: { refusals: 0, keys: 10 } };
    expect(await gateway.reload({ ...settings, admin })).toMatchObject({
      ...{ ok: true, changed: ["admin.recent.refusals", "admin.recent.keys"], restart: [] },
    });
    const refused = await Promise.all(Array.from({ length: 8 }, () => ask(gateway)));
    await counted(gateway, 8);
    for (const response of refused) expect(gateway.recent.request(idOf(response))).toBe(null);
  },
);

test.each(threadCounts)(
  "with %i workers, the history has the memory of the process and of its heaps",
  async (workers) => {
    let aheadMs = 0;
    const clock = clockOf(() => systemClock.monotonicMs() + aheadMs, systemClock.wallMs);
    const { gateway } = await start(workers, {}, clock);
    aheadMs += stepMs;
    const { memory } = gateway.recent.history().steps.find((step) => step !== null) as HistoryStep;
    expect(memory.residentBytes).toBeGreaterThan(20_000_000);
    // Of each thread, and of the main one beside them.
    expect(memory.heapBytes).toBeGreaterThan(workers === 1 ? 5_000_000 : 15_000_000);
    expect(memory.heapBytes).toBeLessThan(memory.residentBytes);
    expect(memory.externalBytes).toBeGreaterThan(100_000);
  },
);

test.each(threadCounts)(
  "with %i workers, the history of policies goes on over a reload that changes them",
  async (workers) => {
    let aheadMs = 0;
    const clock = clockOf(() => systemClock.monotonicMs() + aheadMs, systemClock.wallMs);
    const { gateway, settings } = await start(workers, {}, clock);
    const [first] = settings.policies as [Settings["policies"][number]];
    const sums = () => {
      aheadMs += stepMs;
      const { policies } = gateway.recent.policyHistory();
      const sum = (counts: readonly (number | null)[]) => counts.reduce<number>((all, each) => all + (each ?? 0), 0);
      return policies.map(({ policy, counts }) => [
        policy,
        sum(counts.admitted),
        sum(counts.throttled),
        sum(counts.would_throttle),
      ]);
    };
    for (let i = 0; i < limit + 4; i += 1) await ask(gateway);
    expect(sums()).toEqual([["per-ip", limit, 4, 0]]);
    const shadow: typeof first = { ...first, name: "watched", limit: 1, mode: "shadow" };
    expect(await gateway.reload({ ...settings, policies: [{ ...first, limit: limit + 2 }, shadow] })).toMatchObject({
      ok: true,
    });
    expect(sums()).toEqual([
      ["per-ip", limit, 4, 0],
      ["watched", 0, 0, 0],
    ]);
    for (let i = 0; i < 3; i += 1) await ask(gateway);
    expect(sums()).toEqual([
      ["per-ip", limit + 2, 5, 0],
      ["watched", 1, 0, 2],
    ]);
  },
);

test.each(inFull([2]))("of %i threads one that ends loses nothing of the history", async (workers) => {
  let aheadMs = 0;
  // The clock of the main thread alone: those of the others go on.
  const clock = clockOf(() => systemClock.monotonicMs() + aheadMs, systemClock.wallMs);
  const { gateway } = await start(workers, {}, clock);
  const before = await Promise.all(Array.from({ length: 40 }, () => ask(gateway)));
  const refused = before.filter(({ status }) => status === 429);
  expect(refused).toHaveLength(40 - limit);
  await counted(gateway, refused.length);
  const channel = cleanup(new BroadcastChannel(faultChannel));
  for (const thread of [1, 2]) channel.postMessage({ thread, on: null, how: "exit" });
  await eventually("others have replaced both", async () => {
    const restarts = await metric(gateway, "headgate_worker_restarts_total");
    return restarts === 2 && (await metric(gateway, 'headgate_workers{state="serving"}')) === 2;
  });
  await found(gateway, await ask(gateway));
  aheadMs += stepMs;
  const steps = gateway.recent.history().steps.filter((step) => step !== null);
  const sum = (of: (step: HistoryStep) => number) => steps.reduce((all, step) => all + of(step), 0);
  expect(sum(({ admitted }) => admitted)).toBe(limit);
  expect(sum(({ refused: { throttled = 0 } }) => throttled)).toBe(41 - limit);
});

test("the history has the upstream's failures and its time, and of an id that came twice the last refusal is found", async () => {
  const clock = new FakeClock();
  const trusting: Overrides = { clientAddress: { trustedProxies: ["127.0.0.1/32"] } };
  const { gateway, settings } = await start(1, trusting, clock);
  await ask(gateway, "/v2/me", { "x-forwarded-for": "192.0.2.1" });
  expect(
    await gateway.reload({ ...settings, upstream: { ...settings.upstream, url: "http://127.0.0.1:1" } }),
  ).toMatchObject({ ok: true });
  for (const [i, path] of ["/v2/first", "/v2/second"].entries()) {
    const fields = { "x-request-id": "mine", "x-forwarded-for": `192.0.2.${i + 2}` };
    expect((await ask(gateway, path, fields)).status).toBe(502);
  }
  expect(gateway.recent.request("mine")).toMatchObject({
    target: "/v2/second",
    client: "192.0.2.3",
    reason: "upstream_failed",
    requestId: "mine",
    isRepeated: true,
  });
  clock.advance(stepMs);
  expect(gateway.recent.history().steps).toMatchObject([
    {
      admitted: 1,
      refused: { upstream_failed: 2 },
      upstream: { answered: 1, failedByReason: { refused: 2 } },
      store: null,
    },
  ]);
});
