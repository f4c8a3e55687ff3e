// The store that gateways share, in the metrics and in the log: of one thread, and of several.
import { expect, test } from "vitest";
import {
  callFailureKinds,
  type StateChange,
  type StoreState,
  sharedRulesStates,
  storeStates,
  worstState,
} from "../../src/core/store-link.ts";
import { Samplers } from "../../src/telemetry/log.ts";
import { withoutStore } from "../../src/telemetry/shared-store-metrics.ts";
import { createStoreLog, StoreSightings } from "../../src/telemetry/store-log.ts";
import { FakeClock, keptLog } from "./lines.ts";
import { changesOf, metricsOf, scrape, storeFigures, storeOf } from "./scrape.ts";

const ofStore = (series: Map<string, number>): Record<string, number> =>
  Object.fromEntries([...series].filter(([name]) => /^headgate_store_(?!.*_seconds)/.test(name)));

test("a gateway without a store has no metric of one", async () => {
  expect([...(await scrape(metricsOf())).keys()].filter((name) => name.startsWith("headgate_store_"))).toEqual([]);
});

test("each figure has its series", async () => {
  expect(ofStore(await scrape(metricsOf({ store: storeOf() })))).toEqual({
    'headgate_store_state{state="up"}': 1,
    'headgate_store_state{state="slow"}': 0,
    'headgate_store_state{state="away"}': 0,
    'headgate_store_state{state="returned"}': 0,
    'headgate_store_shards{state="up"}': 1,
    'headgate_store_shards{state="slow"}': 0,
    'headgate_store_shards{state="away"}': 0,
    'headgate_store_shards{state="returned"}': 0,
    headgate_store_replicas: 4,
    'headgate_store_calls_total{result="answered"}': 11,
    'headgate_store_calls_total{result="late"}': 12,
    'headgate_store_calls_total{result="unreachable"}': 13,
    'headgate_store_calls_total{result="refused"}': 14,
    'headgate_store_calls_total{result="full"}': 15,
    'headgate_store_calls_total{result="unready"}': 16,
    'headgate_store_calls_total{result="failed"}': 17,
    ...Object.fromEntries(
      callFailureKinds.map((reason) => [`headgate_store_connect_failures_total{reason="${reason}"}`, 0]),
    ),
    headgate_store_items_total: 18,
    'headgate_store_units_total{fate="granted"}': 19,
    'headgate_store_units_total{fate="spent"}': 20,
    'headgate_store_units_total{fate="returned"}': 21,
    headgate_store_held_units: 22,
    headgate_store_held_leases: 23,
    'headgate_store_waited_total{result="answered"}': 24,
    'headgate_store_waited_total{result="overdue"}': 25,
    'headgate_store_alone_total{mode="local"}': 26,
    'headgate_store_alone_total{mode="open"}': 27,
    'headgate_store_alone_total{mode="closed"}': 28,
    headgate_store_late_total: 33,
    headgate_store_refused_from_memory_total: 29,
    headgate_store_forgot_total: 30,
    headgate_store_clock_steps_total: 31,
    headgate_store_coarse_total: 32,
  });
});

test.each(sharedRulesStates)("the state %s of the shared rules is 1 and the others are 0", async (state) => {
  const series = await scrape(metricsOf({ store: { ...storeOf(), rules: () => ({ state, untold: 3 }) } }));
  for (const each of sharedRulesStates) {
    expect(series.get(`headgate_shared_rules_state{state="${each}"}`), each).toBe(each === state ? 1 : 0);
  }
  expect(series.get("headgate_shared_rules_untold")).toBe(3);
});

test.each(storeStates)("the state %s is 1 and the others are 0", async (state) => {
  const series = await scrape(metricsOf({ store: storeOf({ state }) }));
  for (const each of storeStates) {
    expect(series.get(`headgate_store_state{state="${each}"}`), each).toBe(each === state ? 1 : 0);
  }
});

test("answers and waits are counted with their times, and failed connections with their reasons", async () => {
  const metrics = metricsOf({ store: storeOf() });
  const changes = await changesOf(metrics, () => {
    metrics.storeAnswered(0.0005);
    metrics.storeAnswered(2);
    metrics.storeWaited(0.01);
    metrics.storeConnectFailed("refused");
  });
  expect(changes).toMatchObject({
    'headgate_store_call_duration_seconds_bucket{le="0.0005"}': 1,
    'headgate_store_call_duration_seconds_bucket{le="1.0"}': 1,
    headgate_store_call_duration_seconds_sum: 2.0005,
    headgate_store_call_duration_seconds_count: 2,
    'headgate_store_wait_seconds_bucket{le="0.01"}': 1,
    headgate_store_wait_seconds_count: 1,
    'headgate_store_connect_failures_total{reason="refused"}': 1,
  });
  expect(changes).not.toHaveProperty(['headgate_store_call_duration_seconds_bucket{le="0.00025"}']);
  expect(changes).not.toHaveProperty(['headgate_store_wait_seconds_bucket{le="0.005"}']);
});

test("a scrape reads the figures once, and the next one reads them again", async () => {
  let reads = 0;
  const figures = () => {
    reads += 1;
    return storeFigures({ items: reads });
  };
  const metrics = metricsOf({ store: { figures, health: storeFigures, rules: null } });
  expect((await scrape(metrics)).get("headgate_store_items_total")).toBe(1);
  await new Promise((resolve) => setImmediate(resolve));
  expect((await scrape(metrics)).get("headgate_store_items_total")).toBe(2);
});

test.each([
  [{ up: 3, slow: 0, away: 0, returned: 0 }, "up"],
  [{ up: 2, slow: 1, away: 0, returned: 0 }, "slow"],
  [{ up: 1, slow: 1, away: 0, returned: 1 }, "returned"],
  [{ up: 0, slow: 1, away: 1, returned: 1 }, "away"],
  [{ up: 0, slow: 0, away: 0, returned: 0 }, "away"],
] as const)("of the shards %o the worst is %s", (shards, state) => {
  expect(worstState(shards)).toBe(state);
});

function logs(threads: number, perMinute = 5) {
  const clock = new FakeClock();
  const { log, lines } = keptLog("info", clock);
  const memory = StoreSightings.createMemory();
  const samplers = new Samplers(log, clock, perMinute);
  const each = Array.from({ length: threads }, (_, thread) =>
    createStoreLog(samplers, withoutStore, new StoreSightings(memory, thread)),
  );
  return { clock, lines, memory, samplers, first: each[0] as StoreLogs, second: (each[1] ?? each[0]) as StoreLogs };
}

type StoreLogs = ReturnType<typeof createStoreLog>;

function change(from: StoreState, to: StoreState, changes: Partial<StateChange> = {}): StateChange {
  return { shard: 0, from, to, cause: "answered", detail: "", lastedMs: 12.4, ...changes };
}

test("each change of a shard is one line, a warning unless it is up", () => {
  const { lines, first } = logs(1);
  first.storeChanged(change("away", "up"));
  first.storeChanged(change("up", "slow", { cause: "overdue" }));
  first.storeChanged(change("slow", "away", { cause: "unreachable", detail: "ECONNRESET" }));
  first.storeChanged(change("away", "returned"));
  first.storeChanged(change("returned", "up", { cause: "told", shard: 64 }));
  first.storeChanged(change("up", "returned", { cause: "forgot" }));
  expect(lines()).toEqual(
    [
      { level: "warn", before: "up", cause: "overdue", msg: "store slow" },
      { level: "warn", before: "slow", cause: "unreachable", detail: "ECONNRESET", msg: "store away" },
      { level: "warn", before: "away", cause: "answered", msg: "store returned" },
      { level: "info", before: "returned", cause: "told", shard: 64, msg: "store up" },
      { level: "warn", before: "up", cause: "forgot", msg: "store may have lost counts" },
    ].map((line) => ({ time: expect.any(Number), shard: 0, lastedMs: 12, ...line })),
  );
});

test("that a store is reached at the start is no change, with several threads neither, also of one that starts later", () => {
  const { lines, memory, first, second } = logs(2);
  for (const thread of [first, second]) thread.storeChanged(change("away", "returned"));
  for (const thread of [second, first]) thread.storeChanged(change("returned", "up"));
  StoreSightings.forget(memory, 0);
  first.storeChanged(change("away", "returned"));
  first.storeChanged(change("returned", "up"));
  expect(lines()).toEqual([]);
  first.storeChanged(change("up", "returned", { cause: "forgot" }));
  second.storeChanged(change("up", "returned", { cause: "forgot" }));
  first.storeChanged(change("returned", "up"));
  second.storeChanged(change("returned", "up"));
  expect(lines().map(({ msg }) => msg)).toEqual(["store may have lost counts", "store up"]);
});

test("a store that is away at the start is logged, and so is that it comes", () => {
  const { lines, first } = logs(1);
  first.storeChanged(change("up", "away", { cause: "refused" }));
  first.storeChanged(change("away", "up"));
  expect(lines().map(({ msg }) => msg)).toEqual(["store away", "store up"]);
});

test("what two threads see is one line: when the first sees it worse, and when the last sees it better", () => {
  const { lines, first, second } = logs(2);
  const messages = (): string[] => lines().map(({ msg }) => msg);
  for (const thread of [first, second]) thread.storeChanged(change("away", "up"));
  expect(messages()).toEqual([]);
  for (const thread of [first, second]) thread.storeChanged(change("up", "away"));
  expect(messages()).toEqual(["store away"]);
  first.storeChanged(change("away", "returned"));
  first.storeChanged(change("returned", "up"));
  expect(messages()).toEqual(["store away"]);
  second.storeChanged(change("away", "returned"));
  second.storeChanged(change("returned", "up"));
  expect(messages()).toEqual(["store away", "store returned", "store up"]);
});

test("a thread for which the store is up says nothing while it is slow for another", () => {
  const { lines, first, second } = logs(2);
  first.storeChanged(change("up", "away"));
  second.storeChanged(change("up", "slow"));
  first.storeChanged(change("away", "returned"));
  first.storeChanged(change("returned", "up"));
  expect(lines().map(({ msg }) => msg)).toEqual(["store away", "store returned"]);
  second.storeChanged(change("slow", "up"));
  expect(lines().map(({ msg }) => msg)).toEqual(["store away", "store returned", "store up"]);
});

test("why a server that is connected refuses its probes is one line", () => {
  const { lines, first } = logs(1);
  for (let i = 0; i < 3; i += 1) first.storeChanged(change("away", "away", { cause: "refused", detail: "NOPERM" }));
  expect(lines()).toEqual([
    expect.objectContaining({ level: "warn", msg: "store not usable", shard: 0, cause: "refused", detail: "NOPERM" }),
  ]);
});

test("why no connection can be made is one line, until it is another reason or the shard was reached", () => {
  const { lines, first, second } = logs(2);
  const wrong = { kind: "refused", detail: "WRONGPASS invalid username-password pair" } as const;
  const absent = { kind: "unreachable", detail: "ECONNREFUSED" } as const;
  for (const failure of [wrong, wrong, absent, absent]) {
    for (const thread of [first, second]) thread.storeConnectFailed(0, failure);
  }
  expect(lines()).toEqual([
    expect.objectContaining({
      level: "warn",
      msg: "store not connected",
      shard: 0,
      cause: "refused",
      detail: wrong.detail,
    }),
    expect.objectContaining({ level: "warn", msg: "store not connected", cause: "unreachable" }),
  ]);
  for (let i = 0; i < 2; i += 1) first.storeConnectFailed(null, absent);
  expect(lines().slice(2)).toEqual([expect.objectContaining({ msg: "store not connected", shard: null })]);
  first.storeChanged(change("away", "up"));
  first.storeChanged(change("up", "away", { cause: "unreachable", detail: "ECONNRESET" }));
  first.storeConnectFailed(0, absent);
  expect(lines().slice(3)).toEqual([expect.objectContaining({ msg: "store away", detail: "ECONNRESET" })]);
});

test("another shard is news of its own, and one that is gone holds nothing back", () => {
  const { lines, first, second } = logs(2);
  first.storeChanged(change("up", "away"));
  second.storeChanged(change("up", "away", { shard: 1 }));
  first.storeChanged(change("up", "away", { shard: 1 }));
  expect(lines().map(({ msg }) => msg)).toEqual(["store away", "store away"]);
  first.storeShardGone(1);
  second.storeChanged(change("away", "up", { shard: 1 }));
  expect(lines().at(-1)).toMatchObject({ msg: "store up", shard: 1 });
});

test("what a thread saw that has ended holds nothing back", () => {
  const { lines, memory, first, second } = logs(2);
  for (const thread of [first, second]) thread.storeChanged(change("up", "away"));
  StoreSightings.forget(memory, 0);
  second.storeChanged(change("away", "up"));
  expect(lines().map(({ msg }) => msg)).toEqual(["store away", "store up"]);
});

test("a store that keeps changing is logged a few times a minute, and what was left out is said", () => {
  const { lines, clock, first, samplers } = logs(1, 2);
  first.storeChanged(change("returned", "up"));
  for (let i = 0; i < 10; i += 1) {
    first.storeChanged(change("up", "slow"));
    first.storeChanged(change("slow", "up"));
    clock.nowMs += 2_000;
  }
  expect(lines()).toHaveLength(4);
  samplers.close();
  expect(lines().slice(4)).toEqual([
    expect.objectContaining({ msg: "changes of the store's state left out", change: "up to slow", omitted: 8 }),
    expect.objectContaining({ msg: "changes of the store's state left out", change: "slow to up", omitted: 8 }),
  ]);
  expect(samplers.omitted).toBe(16);
  clock.nowMs += 59_000;
  first.storeChanged(change("up", "away"));
  expect(lines()).toHaveLength(7);
});

test("the server and its warnings are logged once, by one thread, and again if they are others", () => {
  const { lines, memory, first, second } = logs(2);
  const identity = {
    epoch: "a",
    evictedKeys: 0,
    server: "Redis 7.0.15",
    warnings: ["maxmemory-policy is allkeys-lru"],
  };
  for (let i = 0; i < 3; i += 1) for (const thread of [first, second]) thread.storeIdentified(0, identity);
  expect(lines()).toEqual([
    expect.objectContaining({ level: "info", msg: "store connected", shard: 0, server: "Redis 7.0.15" }),
    expect.objectContaining({
      level: "warn",
      msg: "store warning",
      shard: 0,
      detail: "maxmemory-policy is allkeys-lru",
    }),
  ]);
  expect(JSON.stringify(lines())).not.toContain("epoch");
  first.storeIdentified(0, { ...identity, epoch: "b", server: "Valkey 8.1.0" });
  expect(lines().slice(2)).toEqual([expect.objectContaining({ msg: "store connected", server: "Valkey 8.1.0" })]);
  StoreSightings.forget(memory, 0);
  second.storeIdentified(0, identity);
  expect(
    lines()
      .slice(3)
      .map(({ msg }) => msg),
  ).toEqual(["store connected", "store warning"]);
});

test("made up versions and warnings without end are not logged without end", () => {
  const { lines, first } = logs(1);
  for (let i = 0; i < 1_000; i += 1) {
    first.storeIdentified(0, { epoch: "a", evictedKeys: 0, server: `Redis ${i}`, warnings: [] });
  }
  expect(lines()).toHaveLength(100);
});
