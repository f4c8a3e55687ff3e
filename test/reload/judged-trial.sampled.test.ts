// A reload on trial that is judged: taken back as soon as it refuses what the policies before would have admitted.
import type { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import type { Policy } from "../../src/core/policy.ts";
import type { TrialTerms } from "../../src/core/reload.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { type Overrides, testSettings } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { threadCounts } from "../support/runs.ts";
import { request, response, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();

const perIp = (limit: number, others: Partial<Policy> = {}): Policy => ({
  ...slidingPolicy({ limit, windowMs: 60_000 }),
  ...others,
});

const judged: TrialTerms = { confirmWithinMs: 300_000, refusedShare: 0.05, unconfirmed: "takeBack" };

const clientAddress = { trustedProxies: ["127.0.0.1"] };

/** Threads have the real clock. */
async function stage(workers = 1, overrides: Overrides = {}) {
  const clock = new FakeClock();
  const all: Overrides = { workers, policies: [perIp(100)], clientAddress, ...overrides };
  const answer = response("ok");
  const onData = (socket: Socket) => void socket.write(answer);
  const { upstream, gateway, connect } = await stageRaw(cleanup, onData, all, workers === 1 ? clock : undefined);
  // With threads, each client's connections may reach all of them.
  const connections = Array.from({ length: workers * 4 }, () => connect());
  let last = 0;
  const ask = async (client: string, method = "GET", path = "/v2/x"): Promise<[number, number]> => {
    last += 1;
    const on = connections[last % connections.length] as RawConnection;
    const { status, rawHeaders } = await on.ask(request(path, { method, fields: `X-Forwarded-For: ${client}\r\n` }));
    return [status, Number(valuesOf(rawHeaders, "RateLimit-Remaining")[0])];
  };
  const askOften = async (client: string, count: number): Promise<number> => {
    let admitted = 0;
    for (let i = 0; i < count; i += 1) if ((await ask(client))[0] === 200) admitted += 1;
    return admitted;
  };
  const reload = (others: Overrides, terms = judged) => {
    // What was admitted in the instant of the reload is not known to be from before it.
    clock.advance(1);
    return gateway.reload(testSettings(upstream.url, { drain: { timeoutMs: 0 }, ...all, ...others }), terms);
  };
  const tally = () => {
    const { judged, refused } = gateway.trial.trial ?? { judged: -1, refused: -1 };
    return [judged, refused];
  };
  const over = () => expect.poll(() => gateway.trial.trial).toBeNull();
  const lines = (msg: string) => gateway.logLines.filter((line) => String(line["msg"]).startsWith(msg));
  return { clock, gateway, ask, askOften, reload, tally, over, lines };
}

const clients = (count: number) => Array.from({ length: count }, (_, i) => `192.0.2.${i}`);

describe.each(threadCounts)("with %i threads", (workers) => {
  test("a limit of 1 by mistake is taken back, no connection is lost, and the counts are as before", async () => {
    const { gateway, ask, askOften, reload, over, lines } = await stage(workers);
    for (const client of clients(10)) await askOften(client, 20);
    expect(await reload({ policies: [perIp(1)] })).toMatchObject({ ok: true });
    let refused = 0;
    const left = new Map(clients(10).map((client) => [client, 80]));
    // A bounded number, since a connection ends with its thousandth request. The old limit may be back before the last one.
    for (let round = 0; round < 5; round += 1) {
      for (const client of clients(10)) {
        const [status] = await ask(client);
        if (status === 200) left.set(client, (left.get(client) ?? 0) - 1);
        else refused += 1;
      }
    }
    expect(refused).toBeGreaterThanOrEqual(20);
    await over();
    expect(lines("reload on trial taken back")).toMatchObject([{ level: "warn", reason: "refused" }]);
    const taken = 'headgate_reload_trials_total{outcome="taken_back",reason="refused"}';
    expect(await metric(gateway, taken)).toBe(1);
    for (const [client, remaining] of left) expect(await ask(client)).toEqual([200, remaining - 1]);
  });

  test("what was counted before is taken over, so only what the old limit would admit is judged", async () => {
    const { askOften, reload, tally } = await stage(workers);
    await askOften("192.0.2.1", 90);
    await reload({ policies: [perIp(10)] }, { ...judged, refusedShare: 0.99 });
    expect(await askOften("192.0.2.2", 10)).toBe(10);
    expect(await askOften("192.0.2.1", 30)).toBe(0);
    expect(tally()).toEqual([20, 10]);
  });

  test("a scraper that is refused by both changes nothing, and its flood hides no harm", async () => {
    const { ask, askOften, reload, tally, over, lines } = await stage(workers);
    await askOften("192.0.2.1", 110);
    await reload({ policies: [perIp(50)] });
    expect(await askOften("192.0.2.1", 300)).toBe(0);
    for (const client of clients(10).slice(2)) expect(await askOften(client, 10)).toBe(10);
    expect(tally()).toEqual([80, 0]);
    // One client is harmed: 20 of 140 requests are more than a twentieth.
    expect(await askOften("192.0.2.2", 40)).toBe(40);
    expect(await askOften("192.0.2.2", 20)).toBe(0);
    await over();
    expect(lines("reload on trial taken back")).toMatchObject([{ reason: "refused" }]);
    expect(await ask("192.0.2.2")).toEqual([200, 49]);
  });
});

test("a good one is not taken back", async () => {
  const { gateway, askOften, reload, tally } = await stage();
  await reload({ policies: [perIp(50)] });
  for (const client of clients(20)) await askOften(client, 20);
  // 19 that are harmed are too few to say so.
  await askOften("192.0.2.1", 49);
  expect(tally()).toEqual([449, 19]);
  expect(await gateway.trial.confirm()).toMatchObject({ judged: 449, refused: 19 });
});

test("a flood of one address keeps no trial alive: neither over a path without a limit, nor over one whose limit it keeps", async () => {
  const limits = (ofPay: number): Policy[] => [
    perIp(ofPay, { match: { paths: ["/v2/pay/"], methods: [] } }),
    perIp(10_000, { name: "read", match: { paths: ["/v2/read/"], methods: [] } }),
  ];
  const { ask, reload, tally, over, lines } = await stage(1, { policies: limits(100) });
  await reload({ policies: limits(1) });
  const flood = async (path: string): Promise<void> => {
    for (let i = 0; i < 250; i += 1) expect((await ask("198.51.100.1", "GET", path))[0]).toBe(200);
  };
  await flood("/v2/x");
  expect(tally()).toEqual([0, 0]);
  await flood("/v2/read/x");
  expect(tally()).toEqual([100, 0]);
  for (const client of clients(10)) for (let i = 0; i < 3; i += 1) await ask(client, "GET", "/v2/pay/x");
  await over();
  expect(lines("reload on trial taken back")).toMatchObject([{ reason: "refused", judged: 130, refused: 20 }]);
});

test("limits by other keys are judged by those, and policies that hold units until the end are left out", async () => {
  const byMethod = perIp(30, { name: "by-method", key: [{ kind: "client" }, { kind: "method" }] });
  const slots: Policy = { ...perIp(5, { name: "slots" }), rate: { kind: "concurrency" } };
  const guesses = perIp(3, { name: "guesses", chargeStatuses: [200] });
  const { ask, askOften, reload, tally } = await stage(1, { policies: [byMethod, slots] });
  await askOften("192.0.2.1", 20);
  await reload({ policies: [perIp(15, { name: "by-method", key: byMethod.key }), slots, guesses] });
  // The 10 that are left of the old limit are refused by the new one, other methods by neither.
  for (let i = 0; i < 15; i += 1) expect((await ask("192.0.2.1"))[0]).toBe(429);
  expect(tally()).toEqual([10, 10]);
  for (let i = 0; i < 3; i += 1) expect((await ask("192.0.2.1", "DELETE"))[0]).toBe(200);
  // What the guesses refuse is not judged.
  for (let i = 0; i < 10; i += 1) expect((await ask("192.0.2.1", "DELETE"))[0]).toBe(429);
  expect(tally()).toEqual([13, 10]);
});

test("a quota of the calendar is taken over too", async () => {
  const perDay = (limit: number): Policy => ({
    ...perIp(limit),
    rate: { kind: "calendar", per: "day", timezone: "UTC" },
  });
  const { askOften, reload, tally } = await stage(1, { policies: [perDay(100)] });
  await askOften("192.0.2.1", 80);
  await reload({ policies: [perDay(85)] }, { ...judged, refusedShare: 0.99 });
  expect(await askOften("192.0.2.1", 40)).toBe(5);
  expect(tally()).toEqual([20, 15]);
});

test("without a share nothing is judged", async () => {
  const { askOften, reload, tally } = await stage();
  await reload({ policies: [perIp(1)] }, { ...judged, refusedShare: null });
  await askOften("192.0.2.1", 100);
  expect(tally()).toEqual([0, 0]);
});
