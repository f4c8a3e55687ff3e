// The number of gateways by which a limit is divided while the store is away.
import { expect, test } from "vitest";
import { ReplicaCount } from "../../../src/limits/shared/replica-count.ts";

test("it is one before any is seen", () => {
  expect(new ReplicaCount(null, 1_000).value).toBe(1);
});

test("a configured number is not changed by what is seen", () => {
  const replicas = new ReplicaCount(3, 1_000);
  replicas.seen(7, 0);
  expect(replicas.value).toBe(3);
});

test("a larger number counts at once", () => {
  const replicas = new ReplicaCount(null, 1_000);
  replicas.seen(2, 0);
  replicas.seen(5, 1);
  expect(replicas.value).toBe(5);
});

test("gateways that are gone are remembered for the time of the memory, and forgotten after twice as long", () => {
  const replicas = new ReplicaCount(null, 1_000);
  replicas.seen(1, 0);
  replicas.seen(5, 999);
  for (let nowMs = 1_000; nowMs < 2_000; nowMs += 100) replicas.seen(1, nowMs);
  expect(replicas.value).toBe(5);
  replicas.seen(1, 2_000);
  expect(replicas.value).toBe(1);
});
