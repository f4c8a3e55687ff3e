// What leaves in one call, and what of its answer each request has.
import { expect, test } from "vitest";
import { CallBatch, Demand, type Grant, type SentCounter, type Want } from "../../../src/limits/store/call-batch.ts";
import { type CounterAnswer, mostItems } from "../../../src/limits/store/script-call.ts";
import type { Shard } from "../../../src/limits/store/shard.ts";
import type { Lease, SharedKey } from "../../../src/limits/store/shared-key.ts";
import { addLease, answerOf, someKey } from "./some-keys.ts";

const want = (key: SharedKey, units = 1): Want => ({ key, units });

function batchOf(...wanted: (readonly Want[])[]) {
  const batch = new CallBatch({ number: 0 } as Shard, 0);
  const demands = wanted.map((wants) => new Demand(wants));
  for (const demand of demands) batch.add(demand);
  /** Answers for each counter, and how many of those that want several. Returns the places of the leases that were made for requests. */
  const answer = (of: readonly Partial<CounterAnswer>[], requests: readonly number[] = []): number[] => {
    const places: number[] = [];
    const answered = { timeUs: 0, items: of.map(answerOf), requests };
    batch.judge(answered);
    batch.settle(answered, ({ key }, place, units) => {
      places.push(place);
      return addLease(key, String(place), units, 100);
    });
    return places;
  };
  return { batch, demands, answer };
}

/** All of one lease. */
function share({ batch }: { batch: CallBatch }, units: number): Lease {
  const [counter] = batch.counters;
  if (counter === undefined) throw new Error("nothing is asked for");
  counter.lease = addLease(counter.key, "x", units, 100);
  return counter.lease;
}

async function kindsOf(demands: readonly Demand[]): Promise<Grant["kind"][][]> {
  return (await Promise.all(demands.map(({ grants }) => grants))).map((grants) => grants.map(({ kind }) => kind));
}

const full = { fitsUs: 1_000_000 };

test("requests for a step of one key are asked for by its item, all others each by itself", () => {
  const [one, two] = [someKey(), someKey()];
  const { batch } = batchOf([want(one)], [want(two, 2)], [want(one)], [want(two), want(one)]);
  expect(batch.counters.map(({ key, single, wanted }) => [key === one, single.length, wanted])).toEqual([
    [true, 2, 3],
    [false, 0, 3],
  ]);
  const needs = batch.requestItems().map((request) => request.needs.map(({ item, units }) => `${units} of ${item}`));
  expect(needs).toEqual([["2 of 1"], ["1 of 1", "1 of 0"]]);
});

test("keys, and requests for several of them, make a call larger; requests for one key do not", () => {
  const keys = Array.from({ length: mostItems / 2 }, () => someKey());
  const { batch } = batchOf(...keys.map((key) => [want(key)]));
  for (let i = 0; i < mostItems; i += 1) batch.add(new Demand([want(keys[0] as SharedKey)]));
  const next = () => Array.from({ length: mostItems / 2 - 1 }, () => want(someKey()));
  expect([batch.hasRoomFor(next()), batch.hasRoomFor([...next(), want(someKey())])]).toEqual([true, false]);
  batch.add(new Demand(keys.map((key) => want(key))));
  expect(batch.hasRoomFor(next())).toBe(false);
});

test("a call is about a key from the first that joins it until its end", () => {
  const key = someKey();
  const { batch } = batchOf([want(key)], [want(key)]);
  expect([batch.join(key).wanted, key.calls]).toEqual([2, 1]);
  batch.end();
  expect(key.calls).toBe(0);
});

test("of fewer units than were asked for, those have theirs who asked first", async () => {
  const key = someKey();
  const asked = batchOf([want(key)], [want(key)], [want(key)]);
  const lease = share(asked, 2);
  asked.answer([{ granted: 2, askedGranted: 2, ...full }]);
  expect(await kindsOf(asked.demands)).toEqual([["granted"], ["granted"], ["refused"]]);
  expect([lease.reserved, lease.left, asked.batch.counters[0]?.isRefused]).toEqual([2, 0, true]);
});

test.each([
  ["that is not of its period any more", { isInPeriod: false, ...full }],
  ["that is something else's", { isForeign: true, ...full }],
])("a key %s has refused nothing", async (_, answer) => {
  const asked = batchOf([want(someKey())]);
  asked.answer([answer]);
  expect(await kindsOf(asked.demands)).toEqual([["spared"]]);
});

test("a request that wants units of a key twice is refused by it if there are too few for both", async () => {
  const key = someKey();
  const asked = batchOf([want(key), want(key)]);
  asked.answer([{ free: 1 }], [0]);
  expect(await kindsOf(asked.demands)).toEqual([["refused", "refused"]]);
  expect(asked.batch.counters[0]?.isRefused).toBe(true);
});

test("of units that requests may give back, each request has a lease of its own", async () => {
  const [one, two] = [someKey({ isByRequest: true }), someKey({ isByRequest: true })];
  const { batch, demands, answer } = batchOf([want(one)], [want(one)], [want(one), want(two)], [want(one, 3)]);
  expect(answer([{ granted: 5, askedGranted: 1 }, { granted: 1 }], [1, 1])).toEqual([0, 2, 0, 3]);
  expect((await kindsOf(demands)).flat().filter((kind) => kind === "granted")).toHaveLength(4);
  expect([one.held.reserved, two.held.reserved, one.held.free(0)]).toEqual([5, 1, 0]);
  // What a call may have been granted that has no answer is returned by these.
  const leases = batch.counters.map((counter) => {
    counter.sent = { item: { id: "x", step: 1, ahead: 0 }, rules: counter.key.rules } as SentCounter;
    return batch.leasesOf(counter).join(" ");
  });
  expect(leases).toEqual(["x,1 x.1,1 x.2,1 x.3,3", "x,1"]);
});

test("a request that was decided meanwhile gets nothing of what its call is granted", async () => {
  const key = someKey({ isAhead: false });
  const asked = batchOf([want(key)], [want(key)]);
  const lease = share(asked, 2);
  asked.demands[0]?.decideAlone();
  asked.answer([{ granted: 2, askedGranted: 2 }]);
  expect(await kindsOf(asked.demands)).toEqual([["alone"], ["granted"]]);
  expect([lease.reserved, lease.left]).toEqual([1, 1]);
  // And what it was granted is returned with the rest of the lease.
  key.spend(lease, 1, 10);
  expect(key.held.takeReports(9, 10)).toMatchObject([{ granted: 2, spent: 1 }]);
});
