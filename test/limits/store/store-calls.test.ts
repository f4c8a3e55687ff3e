// What a request that waits for the store learns, and when; and when a call is overdue.
import { expect, test } from "vitest";
import { Claim, type Conclusion } from "../../../src/limits/store/call-batch.ts";
import { mostCredits } from "../../../src/limits/store/credits.ts";
import { Forgets } from "../../../src/limits/store/forgets.ts";
import { mostItems } from "../../../src/limits/store/script-call.ts";
import type { Shard } from "../../../src/limits/store/shard.ts";
import { addLease, rulesAhead } from "./some-credits.ts";
import { StoreScene, settled, waitMs } from "./store-scene.ts";

/** Asks for a unit in each of some shards of a cluster. Returns what the request has learned. */
function askIn(scene: StoreScene, shards: readonly number[], sinceMs: number | null = null): Conclusion[] {
  const learned: Conclusion[] = [];
  const wanted = shards.map((shard) => new Claim(scene.credits({ isAhead: false }, String(shard)), 1));
  void scene.store.ask(wanted, sinceMs).then((conclusion) => void learned.push(conclusion));
  return learned;
}

async function cluster(): Promise<StoreScene> {
  const scene = new StoreScene(2);
  for (const shard of [0, 1]) await scene.up(shard);
  return scene;
}

test("a request has its answer when the last of its calls has", async () => {
  const scene = await cluster();
  const learned = askIn(scene, [0, 1]);
  scene.timers.endTurn();
  expect(scene.calls.map(({ shard }) => shard)).toEqual([0, 1]);
  scene.grant();
  await settled();
  expect(learned).toEqual([]);
  scene.grant();
  await settled();
  expect([learned, scene.store.figures().waited.answered]).toEqual([["answered"], 2]);
});

test.each(["the first", "the second"])("a request is decided alone if %s of its calls has no answer", async (which) => {
  const scene = await cluster();
  const learned = askIn(scene, [0, 1]);
  scene.timers.endTurn();
  if (which === "the first") scene.fail();
  scene.grant();
  if (which === "the second") scene.fail();
  await settled();
  expect(learned).toEqual(["alone"]);
});

test("a request with several counters in one call waits for it once", async () => {
  const scene = new StoreScene();
  await scene.up();
  const learned = askIn(scene, [0, 1]);
  scene.timers.endTurn();
  scene.grant();
  await settled();
  expect([learned, scene.waitedSeconds]).toEqual([["answered"], [0]]);
});

test("the second wait ends when the first would have, and an answer that comes later changes nothing", async () => {
  const scene = new StoreScene();
  await scene.up();
  const learned = askIn(scene, [0], scene.timers.clock.nowMs - waitMs / 2);
  scene.timers.endTurn();
  scene.timers.advance(waitMs / 2);
  scene.timers.endTurn();
  await settled();
  expect(learned).toEqual(["alone"]);
  scene.grant();
  await settled();
  expect(learned).toEqual(["alone"]);
});

test("an answer in time leaves no timer behind", async () => {
  const scene = new StoreScene();
  await scene.up();
  const before = scene.timers.waiting;
  const learned = askIn(scene, [0], scene.timers.clock.nowMs);
  scene.timers.endTurn();
  scene.grant();
  await settled();
  // One more looks for what was granted to end, and one for keys to forget.
  expect([learned, scene.timers.waiting]).toEqual([["answered"], before + 2]);
});

test("what was admitted without a store that is slow is remembered of a bounded number of keys", async () => {
  const scene = new StoreScene();
  await scene.up();
  const { store } = scene;
  const { policy, key, rules } = scene.credits();
  scene.late();
  askIn(scene, [0]);
  scene.late();
  expect(scene.state()).toBe("slow");
  const all = Array.from({ length: mostCredits + 100 }, (_, i) => {
    const credits = store.book.create(policy, `0 ${i}`, key, key, rules);
    store.admittedAlone(credits);
    return credits;
  });
  expect(all.filter(({ owes }) => owes).length).toBeLessThanOrEqual(mostCredits);
});

test("a request is decided alone if there is nobody to ask", async () => {
  const scene = new StoreScene();
  const learned = askIn(scene, [0]);
  await settled();
  expect(learned).toEqual(["alone"]);
});

test("a call without a request is not overdue because this thread was long about sending it", async () => {
  const scene = new StoreScene();
  await scene.up();
  const credits = scene.credits();
  addLease(credits, "x", 1, scene.timers.clock.nowMs + 1_000);
  scene.store.endAll(credits);
  scene.timers.advance(waitMs);
  scene.timers.endTurn();
  expect(scene.state()).toBe("up");
  scene.timers.advance(waitMs);
  scene.timers.endTurn();
  expect(scene.state()).toBe("slow");
});

test("a call that requests wait for is overdue when they have waited", async () => {
  const scene = new StoreScene();
  await scene.up();
  const learned = askIn(scene, [0]);
  scene.late();
  await settled();
  expect([scene.state(), learned, scene.store.figures().waited]).toEqual([
    "slow",
    ["alone"],
    { answered: 0, overdue: 1 },
  ]);
  scene.grant();
  expect([scene.state(), scene.store.figures().waited.answered]).toEqual(["up", 0]);
});

test("the shard is not slow any more when its last overdue call has failed", async () => {
  const scene = new StoreScene();
  await scene.up();
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

test("many requests of one key that arrive together are concluded in portions, call by call", async () => {
  const scene = new StoreScene();
  await scene.up();
  const credits = scene.credits({ isByRequest: true });
  let concluded = 0;
  for (let i = 0; i < 2.5 * mostItems; i += 1) {
    void scene.store.ask([new Claim(credits, 1)], null).then(() => {
      concluded += 1;
    });
  }
  scene.timers.endTurn();
  const after: number[] = [];
  while (scene.calls.length > 0) {
    scene.fail({ kind: "full", detail: "" });
    await settled();
    after.push(concluded);
  }
  expect(after).toEqual([mostItems, 2 * mostItems, 2.5 * mostItems]);
});

test("the keys of a request are in one call, and what was granted is claimed by those that asked first", async () => {
  const scene = new StoreScene();
  await scene.up();
  const count = Math.floor(0.6 * mostItems);
  const requests = [0, 1].map((i) => {
    const of = Array.from({ length: count }, (_, j) => scene.credits({ isAhead: false }, `${i}/${j}`));
    return of.map((credits) => new Claim(credits, 1));
  });
  for (const claims of requests) void scene.store.ask(claims, null);
  scene.timers.endTurn();
  expect(scene.calls.map(({ args }) => args.filter((arg) => arg === "S1").length)).toEqual([count, count]);
  scene.grant();
  expect(requests.map((claims) => claims.filter(({ isHeld }) => isHeld).length)).toEqual([count, 0]);
  const [claim] = requests[0] ?? [];
  expect([claim?.credits.held(scene.timers.clock.nowMs), claim?.credits.unclaimed(scene.timers.clock.nowMs)]).toEqual([
    1, 0,
  ]);
  claim?.release();
  expect(claim?.credits.unclaimed(scene.timers.clock.nowMs)).toBe(1);
});

test("what is granted after its requests were decided without it is claimed by nobody", async () => {
  const scene = new StoreScene();
  await scene.up();
  const claim = new Claim(scene.credits({ isAhead: false }), 1);
  void scene.store.ask([claim], null);
  scene.late();
  await settled();
  scene.grant();
  expect([claim.isHeld, claim.credits.unclaimed(scene.timers.clock.nowMs)]).toEqual([false, 1]);
});

test("slots in a shard that is away do not keep those of others from being renewed", async () => {
  const scene = await cluster();
  for (const shard of [1, 0]) {
    const credits = scene.credits({ item: "concurrency", isByRequest: true, isAhead: false }, String(shard));
    addLease(credits, `x${shard}`, 1, scene.timers.clock.nowMs + 1_000);
    scene.store.spend(credits, 1, scene.timers.clock.nowMs);
  }
  scene.store.shards.of("1")?.disconnected({ kind: "unreachable", detail: "" });
  scene.timers.advance(4_000);
  await settled();
  const renewed = scene.calls.filter(({ args }) => args[0] === "n0");
  expect(renewed.map(({ shard, args }) => [shard, args.includes("x0")])).toEqual([[0, true]]);
});

test.each([
  ["a minute", 60_000, 180],
  ["a day", 86_400_000, 90_000],
])(
  "the mark of a counter that was forgiven stays a while longer than %s that it counts",
  async (_, countMs, seconds) => {
    const scene = new StoreScene();
    await scene.up();
    const { store } = scene;
    const { source } = scene.credits().policy;
    store.forgive(store.book.policy("s/forgiven", source, countMs), "0", rulesAhead, 7);
    await settled();
    expect(scene.calls.map(({ args }) => args)).toEqual([["f", "7", String(1000 * seconds)]]);
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
