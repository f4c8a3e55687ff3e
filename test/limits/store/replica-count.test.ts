// The number of gateways by which a limit is divided while the store is away.
import { expect, test } from "vitest";
import { memoryMs, ReplicaCount } from "../../../src/limits/store/replica-count.ts";

test("it is one before any is seen", () => {
  expect(new ReplicaCount(null).value).toBe(1);
});

test("a configured number is not changed by what is seen", () => {
  const replicas = new ReplicaCount(3);
  replicas.seen(7, 0);
  expect(replicas.value).toBe(3);
});

test("a larger number counts at once", () => {
  const replicas = new ReplicaCount(null);
  replicas.seen(2, 0);
  replicas.seen(5, 1);
  expect(replicas.value).toBe(5);
});

test("gateways that are gone are remembered for the time of the memory, and forgotten after twice as long", () => {
  const replicas = new ReplicaCount(null);
  replicas.seen(1, 0);
  replicas.seen(5, memoryMs - 1);
  for (let nowMs = memoryMs; nowMs < 2 * memoryMs; nowMs += 1000) replicas.seen(1, nowMs);
  expect(replicas.value).toBe(5);
  replicas.seen(1, 2 * memoryMs);
  expect(replicas.value).toBe(1);
});

test("what was seen before a long time without an answer is remembered as long afterwards", () => {
  const replicas = new ReplicaCount(null);
  replicas.seen(3, 0);
  replicas.seen(1, 3_600_000);
  replicas.seen(1, 3_600_000 + memoryMs - 1);
  expect(replicas.value).toBe(3);
});
