// What a request that waits for the store learns, and when; and when a call is overdue.
import { expect, test } from "vitest";
import type { Grant } from "../../../src/limits/store/call-batch.ts";
import { Forgets } from "../../../src/limits/store/forgets.ts";
import { mostKeys } from "../../../src/limits/store/key-book.ts";
import { type CounterItem, type LeaseReport, leaseIdOf, mostItems } from "../../../src/limits/store/script-call.ts";
import type { Shard } from "../../../src/limits/store/shard.ts";
import type { SharedKey } from "../../../src/limits/store/shared-key.ts";
import { addLease, rulesAhead } from "./some-keys.ts";
import { StoreScene, settled, waitMs } from "./store-scene.ts";

/** Asks for a unit of each key. Returns what the request has learned. */
function ask(scene: StoreScene, keys: readonly SharedKey[], sinceMs: number | null = null): Grant["kind"][][] {
  const learned: Grant["kind"][][] = [];
  const wants = keys.map((key) => ({ key, units: 1 }));
  void scene.store.ask(wants, sinceMs).then((grants) => void learned.push(grants.map(({ kind }) => kind)));
  return learned;
}

/** The same of a key in each of some shards of a cluster. */
function askIn(scene: StoreScene, shards: readonly number[], sinceMs: number | null = null): Grant["kind"][][] {
  return ask(scene, keysOf(scene, shards), sinceMs);
}

function keysOf(scene: StoreScene, tags: readonly number[], isByRequest = false): SharedKey[] {
  return tags.map((tag) => scene.key({ isAhead: false, isByRequest }, String(tag)));
}

/** What the calls that have no answer report. */
function reportsOf({ calls }: StoreScene): LeaseReport[] {
  return calls.flatMap(({ items }) => items.flatMap((item) => ("reports" in item ? item.reports : [])));
}

test("a request has its answer when the last of its calls has", async () => {
  const scene = await StoreScene.start(2);
  const learned = askIn(scene, [0, 1]);
  scene.timers.endTurn();
  expect(scene.calls.map(({ shard }) => shard)).toEqual([0, 1]);
  scene.grant();
  await settled();
  expect(learned).toEqual([]);
  scene.grant();
  await settled();
  expect([learned, scene.store.figures().waited.answered]).toEqual([[["granted", "granted"]], 2]);
});

test.each([
  ["the first", ["alone", "granted"]],
  ["the second", ["granted", "alone"]],
])("a request is decided alone for the key of %s of its calls if that has no answer", async (which, kinds) => {
  const scene = await StoreScene.start(2);
  const learned = askIn(scene, [0, 1]);
  scene.timers.endTurn();
  if (which === "the first") scene.fail();
  scene.grant();
  if (which === "the second") scene.fail();
  await settled();
  expect(learned).toEqual([kinds]);
});

test("a request with several counters in one call waits for it once", async () => {
  const scene = await StoreScene.start();
  const learned = askIn(scene, [0, 1]);
  scene.timers.endTurn();
  scene.grant();
  await settled();
  expect([learned, scene.waitedSeconds]).toEqual([[["granted", "granted"]], [0]]);
});

test("the second wait ends when the first would have, and an answer that comes later changes nothing", async () => {
  const scene = await StoreScene.start();
  const learned = askIn(scene, [0], scene.timers.clock.nowMs - waitMs / 2);
  scene.timers.endTurn();
  scene.timers.advance(waitMs / 2);
  scene.timers.endTurn();
  await settled();
  expect(learned).toEqual([["alone"]]);
  scene.grant();
  await settled();
  expect(learned).toEqual([["alone"]]);
});

test("an answer in time leaves no timer behind", async () => {
  const scene = await StoreScene.start();
  const before = scene.timers.waiting;
  const learned = askIn(scene, [0], scene.timers.clock.nowMs);
  scene.timers.endTurn();
  scene.grant();
  await settled();
  // One more looks for what was granted to end, and one for keys to forget.
  expect([learned, scene.timers.waiting]).toEqual([[["granted"]], before + 2]);
});

test("what was admitted without a store that is slow is remembered of a bounded number of keys", async () => {
  const scene = await StoreScene.start();
  const { store } = scene;
  const { policy, key, rules } = scene.key();
  scene.late();
  askIn(scene, [0]);
  scene.late();
  expect(scene.state()).toBe("slow");
  const all = Array.from({ length: mostKeys + 100 }, (_, i) => {
    const known = store.book.create(policy, `0 ${i}`, key, key, rules);
    store.admittedAlone(known);
    return known;
  });
  expect(all.filter(({ owes }) => owes).length).toBeLessThanOrEqual(mostKeys);
});

test("a request is decided alone if there is nobody to ask", async () => {
  const scene = new StoreScene();
  const learned = askIn(scene, [0]);
  await settled();
  expect(learned).toEqual([["alone"]]);
});

test("a call without a request is not overdue because this thread was long about sending it", async () => {
  const scene = await StoreScene.start();
  const key = scene.key();
  addLease(key, "x", 1, scene.timers.clock.nowMs + 1_000);
  scene.store.endAll(key);
  scene.timers.advance(waitMs);
  scene.timers.endTurn();
  expect(scene.state()).toBe("up");
  scene.timers.advance(waitMs);
  scene.timers.endTurn();
  expect(scene.state()).toBe("slow");
});

test("a call that requests wait for is overdue when they have waited", async () => {
  const scene = await StoreScene.start();
  const learned = askIn(scene, [0]);
  scene.late();
  await settled();
  expect([scene.state(), learned, scene.store.figures().waited]).toEqual([
    "slow",
    [["alone"]],
    { answered: 0, overdue: 1 },
  ]);
  scene.grant();
  expect([scene.state(), scene.store.figures().waited.answered]).toEqual(["up", 0]);
});

test("the shard is not slow any more when its last overdue call has failed", async () => {
  const scene = await StoreScene.start();
  for (let i = 0; i < 2; i += 1) {
    askIn(scene, [0]);
    scene.timers.endTurn();
  }
  scene.late();
  scene.fail();
  expect(scene.state()).toBe("slow");
  scene.fail();
  expect(scene.state()).toBe("up");
});

test("many requests of one key that arrive together are decided in portions, call by call", async () => {
  const scene = await StoreScene.start();
  const key = scene.key({ isByRequest: true });
  const asked = Array.from({ length: 2.5 * mostItems }, () => ask(scene, [key]));
  scene.timers.endTurn();
  const portions: number[] = [];
  while (scene.calls.length > 0) {
    scene.fail({ kind: "full", detail: "" });
    await settled();
    portions.push(asked.filter((learned) => learned.splice(0).length > 0).length);
  }
  // A call has its key and that of the next request, too.
  const most = mostItems - 2;
  expect(portions).toEqual([most, most, 2.5 * mostItems - 2 * most]);
});

test("the keys of a request are in one call, and those of one that does not fit beside it in another", async () => {
  const scene = await StoreScene.start();
  const count = Math.floor(0.6 * mostItems);
  for (const i of [0, 1])
    askIn(
      scene,
      Array.from({ length: count }, (_, j) => i + j / count),
    );
  scene.timers.endTurn();
  expect(scene.calls.map(({ items, requests }) => [items.length, requests.length])).toEqual([
    [count, 1],
    [count, 1],
  ]);
});

test("of several keys one refuses: the others are spared, and nothing of them is held or refused", async () => {
  const scene = await StoreScene.start();
  const keys = keysOf(scene, [0, 1]);
  const learned = ask(scene, keys);
  scene.timers.endTurn();
  scene.grant(keys.slice(1));
  await settled();
  expect(learned).toEqual([["spared", "refused"]]);
  expect(keys.map(({ held }) => held.open)).toEqual([0, 0]);
  expect(keys.map((key) => key.isRefused(scene.timers.clock.nowMs))).toEqual([false, true]);
});

test("two keys of one store key by different limits are never in one call", async () => {
  const scene = await StoreScene.start();
  const key = scene.key({ isAhead: false });
  const { store } = scene;
  const other = store.book.create(key.policy, key.tag, key.key, key.client, { ...key.rules, limit: 5 });
  expect(other.storeKey).toBe(key.storeKey);
  for (const each of [key, other, key]) ask(scene, [each]);
  scene.timers.endTurn();
  const asked = scene.calls.map(({ items }) => items.map((item) => "limit" in item && [item.limit, item.asked]));
  expect(asked).toEqual([[[key.rules.limit, 1]], [[5, 1]], [[key.rules.limit, 1]]]);
});

test("what is granted after its requests were decided without it is reserved for nobody, and returned", async () => {
  const scene = await StoreScene.start();
  const key = scene.key({ isAhead: false });
  ask(scene, [key]);
  scene.late();
  await settled();
  scene.grant();
  expect([key.held.reserved, scene.store.figures().heldUnits]).toEqual([0, 1]);
  scene.timers.advance(20);
  scene.timers.endTurn();
  expect([key.held.open, scene.store.figures().heldUnits]).toEqual([0, 0]);
  expect(reportsOf(scene)).toMatchObject([{ granted: 1, spent: 0 }]);
});

test.each([
  ["all that requests of a call have is one lease", false, [3]],
  ["a request that may give its units back has a lease of its own", true, [1, 1, 1]],
])("what a lost call may have been granted is reported as not spent: %s", async (_, isByRequest, units) => {
  const scene = await StoreScene.start();
  const [key, other] = keysOf(scene, [0, 1], isByRequest) as [SharedKey, SharedKey];
  for (const keys of [[key], [key], [key, other]]) ask(scene, keys);
  scene.timers.endTurn();
  const [{ id }] = scene.calls.flatMap(({ items }) => items) as [CounterItem];
  scene.fail();
  const expected = units.map((granted, place) => ({ id: leaseIdOf(id, place), granted, spent: 0 }));
  expect(key.held.takeReports(9, scene.timers.clock.nowMs)).toMatchObject(expected);
});

test("units are leased ahead when a quarter of what a busy key wants is left, once", async () => {
  const scene = await StoreScene.start();
  const key = scene.key();
  const { nowMs } = scene.timers.clock;
  key.ahead?.wanted(key.rules, nowMs);
  key.ahead?.spent(100, nowMs);
  addLease(key, "x", 60, nowMs + 1_000);
  const spends = (units: number): number => {
    const lease = key.held.take(units, nowMs);
    if (lease !== undefined) scene.store.spend(lease, units, nowMs);
    scene.timers.endTurn();
    return scene.calls.length;
  };
  expect([spends(10), spends(30), spends(1)]).toEqual([0, 1, 1]);
  // A unit a millisecond, for 100 ms, was spent before.
  expect(scene.calls[0]?.items).toMatchObject([{ asked: 0, ahead: 140 - 20 }]);
});

test("slots in a shard that is away do not keep those of others from being renewed", async () => {
  const scene = await StoreScene.start(2);
  for (const shard of [1, 0]) {
    const { nowMs } = scene.timers.clock;
    const key = scene.key({ item: "concurrency", isByRequest: true, isAhead: false }, String(shard));
    const lease = addLease(key, `x${shard}`, 1, nowMs + 1_000);
    key.held.take(1, nowMs);
    scene.store.spend(lease, 1, nowMs);
  }
  scene.store.shards.of("1")?.disconnected({ kind: "unreachable", detail: "" });
  scene.timers.advance(4_000);
  await settled();
  expect(reportsOf(scene)).toMatchObject([{ id: "x0", granted: 1, spent: 1 }]);
});

test.each([
  ["a minute", 60_000, 180],
  ["a day", 86_400_000, 90_000],
])(
  "the mark of a counter that was forgiven stays a while longer than %s that it counts",
  async (_, countMs, seconds) => {
    const scene = await StoreScene.start();
    const { store } = scene;
    const { source } = scene.key().policy;
    store.forgive(store.book.policy("s/forgiven", source, countMs), "0", rulesAhead, 7);
    await settled();
    expect(scene.calls).toMatchObject([{ items: [{ item: "forget", seq: 7, keepMs: 1000 * seconds }] }]);
  },
);

test("a store that comes back is told to forget a counter only while something counts in it", async () => {
  const { timers } = new StoreScene();
  const shard = { state: "away" } as Shard;
  const told: unknown[] = [];
  const forgets = new Forgets(
    { timers, clock: timers.clock },
    () => shard,
    async (_, items) => told.push(...items) > 0,
  );
  const forget = (markKey: string) => ({ item: "forget", key: "k", markKey, seq: 7, keepMs: 180_000 }) as const;
  for (const countMs of [1_000, 2_000]) forgets.add("0", forget(`counts for ${countMs}`), countMs);
  timers.clock.nowMs += 1_000;
  await forgets.tellAll(shard);
  expect(told).toEqual([forget("counts for 2000")]);
});

test("questions that want more keys than a call may have share calls, and are answered together, in their order", async () => {
  const scene = await StoreScene.start();
  const keys = keysOf(scene, [...Array.from({ length: 2 * mostItems }).keys()]);
  const learned = ask(scene, keys);
  scene.timers.endTurn();
  expect(scene.calls.map(({ items }) => items.length)).toEqual([63, 63, 2]);
  const full = keys.slice(-1);
  while (scene.calls.length > 0) scene.grant(full);
  await settled();
  expect(learned).toEqual([[...keys.slice(0, -2).map(() => "granted"), "spared", "refused"]]);
});
