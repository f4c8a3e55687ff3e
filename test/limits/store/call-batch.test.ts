// What the requests of one turn ask for together.
import { expect, test } from "vitest";
import { CallBatch, Claim } from "../../../src/limits/store/call-batch.ts";
import type { Shard } from "../../../src/limits/store/shard.ts";
import { someCredits } from "./some-credits.ts";

function batchOf(): CallBatch {
  return new CallBatch({ number: 0 } as Shard, 0);
}

test("units of the same key are asked for by one item", () => {
  const batch = batchOf();
  const [one, two] = [someCredits(), someCredits()];
  for (const [credits, needed] of [[one, 1] as const, [two, 2] as const, [one, 3] as const]) {
    batch.add(credits, new Claim(credits, needed));
  }
  expect(batch.items.map(({ credits, needed }) => [credits === one, needed])).toEqual([
    [true, 4],
    [false, 2],
  ]);
});

test("of units that requests may give back, each request makes the call larger", () => {
  const batch = batchOf();
  const [one, two] = [someCredits({ isByRequest: true }), someCredits()];
  for (const credits of [one, two]) for (let i = 0; i < 3; i += 1) batch.add(credits, new Claim(credits, 1));
  expect([batch.items.length, batch.size]).toEqual([2, 4]);
});

test("a key is in a call once: by another limit, it is in another call", () => {
  const batch = batchOf();
  const credits = someCredits();
  const other = Object.assign(someCredits(), { storeKey: credits.storeKey });
  batch.add(credits, null);
  expect([credits, other, someCredits()].map((each) => batch.hasRoom(each, 1))).toEqual([true, false, true]);
});

test("a request that needs nothing of a key waits for what others ask of it", () => {
  const batch = batchOf();
  const credits = someCredits({ isByRequest: true });
  batch.add(credits, new Claim(credits, 1));
  batch.add(credits, new Claim(credits, 0));
  batch.add(credits, null);
  expect(batch.items.map(({ needed }) => needed)).toEqual([1]);
});

test("of fewer units than were asked for, those have theirs who asked first", () => {
  const batch = batchOf();
  const credits = someCredits();
  const claims = [1, 3, 1].map((units) => new Claim(credits, units));
  for (const claim of claims) batch.add(credits, claim);
  batch.granted(0, 2);
  expect(claims.map(({ isHeld }) => isHeld)).toEqual([true, false, true]);
  expect(credits.claimed).toBe(2);
});

test("only the first conclusion counts, and nobody waits for it then", async () => {
  const batch = batchOf();
  const credits = someCredits();
  batch.add(credits, new Claim(credits, 2));
  batch.waiting = 1;
  expect(credits.awaitedUnits).toBe(2);
  batch.conclude("answered");
  batch.conclude("alone");
  expect([await batch.concluded, batch.waiting, credits.awaitedUnits]).toEqual(["answered", 0, 0]);
});

test("a request that was decided meanwhile gets nothing of what its call is granted", () => {
  const batch = batchOf();
  const credits = someCredits();
  const [decided, waiting] = [new Claim(credits, 1), new Claim(credits, 1)];
  for (const claim of [decided, waiting]) batch.add(credits, claim);
  decided.release();
  batch.granted(0, 1);
  expect([decided.isHeld, waiting.isHeld, credits.claimed]).toEqual([false, true, 1]);
  waiting.release();
  expect(credits.claimed).toBe(0);
});
