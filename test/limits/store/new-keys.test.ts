// The bound on the keys that one gateway makes in the store.
import { expect, test } from "vitest";
import { NewKeys } from "../../../src/limits/store/credits.ts";

function full(): NewKeys {
  const keys = new NewKeys(2, 1_000);
  keys.add(0);
  expect(keys.hasRoom(999)).toBe(true);
  keys.add(999);
  return keys;
}

test("no window has more new keys than the bound", () => {
  const keys = full();
  expect([999, 1_000, 1_998].map((nowMs) => keys.hasRoom(nowMs))).toEqual([false, false, false]);
});

test("a new key is forgotten after two windows at the latest", () => {
  const keys = full();
  expect(keys.hasRoom(1_500)).toBe(false);
  expect(keys.hasRoom(2_500)).toBe(true);
});

test("after a long silence there is room at once", () => {
  expect(full().hasRoom(2_000)).toBe(true);
});
