// What the requests of one turn ask for together.
import { expect, test } from "vitest";
import { CallBatch } from "../../../src/limits/store/call-batch.ts";
import type { Shard } from "../../../src/limits/store/shard.ts";
import { someCredits } from "./some-credits.ts";

function batchOf(): CallBatch {
  return new CallBatch({ number: 0 } as Shard, 0);
}

test("units of the same key are asked for by one item", () => {
  const batch = batchOf();
  const [one, two] = [someCredits(), someCredits()];
  for (const [credits, needed] of [[one, 1] as const, [two, 2] as const, [one, 3] as const]) {
    batch.add(credits, needed, true);
  }
  expect(batch.items.map(({ credits, needed }) => [credits === one, needed])).toEqual([
    [true, 4],
    [false, 2],
  ]);
});

test("units that requests may give back are asked for one by one", () => {
  const batch = batchOf();
  const credits = someCredits({ isByRequest: true });
  for (let i = 0; i < 2; i += 1) batch.add(credits, 1, true);
  expect(batch.items.map(({ needed }) => needed)).toEqual([1, 1]);
});

test("a request that needs nothing of a key waits for what others ask of it", () => {
  const batch = batchOf();
  const credits = someCredits({ isByRequest: true });
  batch.add(credits, 1, true);
  batch.add(credits, 0, true);
  batch.add(credits, 0, false);
  expect(batch.items.map(({ needed }) => needed)).toEqual([1, 0]);
});

test("only the first conclusion counts, and nobody waits for it then", async () => {
  const batch = batchOf();
  const credits = someCredits();
  batch.add(credits, 2, true);
  batch.waiting = 1;
  expect(credits.awaitedUnits).toBe(2);
  batch.conclude("answered");
  batch.conclude("alone");
  expect([await batch.concluded, batch.waiting, credits.awaitedUnits]).toEqual(["answered", 0, 0]);
});
