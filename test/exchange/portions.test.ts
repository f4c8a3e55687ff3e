// Work in portions: all of it is done, in order, and others have turns in between.
import { expect, test } from "vitest";
import { inPortions, Portions } from "../../src/exchange/connection.ts";
import { eventually } from "../support/eventually.ts";

/** How many items were visited at each turn of the event loop, while `work` went on. */
async function turnsOf(visited: readonly unknown[], work: () => Promise<void>): Promise<number[]> {
  const counts: number[] = [];
  let isDone = false;
  const count = (): void => {
    counts.push(visited.length);
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  await work();
  isDone = true;
  return [...new Set(counts)];
}

test.each([
  [0, []],
  [100, [100]],
  [101, [100]],
  [250, [100, 200]],
])("of %i items, others see so many done at their turns", async (length, expected) => {
  const visited: number[] = [];
  const items = Array.from({ length }, (_, i) => i);
  const turns = await turnsOf(visited, () => inPortions(items, (item) => void visited.push(item)));
  expect(visited).toEqual(items);
  expect(turns.filter((count) => count > 0 && (count < length || length === 100)).slice(0, 2)).toEqual(
    length === 100 ? [] : expected,
  );
});

test("what is deleted before its turn is not visited, and what is added is", async () => {
  const items = new Set(Array.from({ length: 150 }, (_, i) => i));
  const visited: number[] = [];
  const work = inPortions(items, (item) => void visited.push(item));
  expect(visited).toHaveLength(100);
  items.delete(120);
  items.add(500);
  await work;
  expect(visited).toHaveLength(150);
  expect([visited.includes(120), visited.at(-1)]).toEqual([false, 500]);
});

test("items that arrive one by one are visited once each, later", async () => {
  const visited: number[] = [];
  const portions = new Portions<number>((item) => void visited.push(item));
  for (let i = 0; i < 250; i += 1) portions.add(i);
  expect(visited).toEqual([]);
  await eventually("the first portion is done", () => visited.length > 0);
  portions.add(250);
  await eventually("all are done", () => visited.length === 251);
  portions.add(251);
  await eventually("so is a late one", () => visited.length === 252);
  expect(visited).toEqual(Array.from({ length: 252 }, (_, i) => i));
});
