// Several threads on one table: never more than the limit, whatever their order is, and whichever of them end.
import { expect, onTestFinished, test } from "vitest";
import type { Policy } from "../../../src/core/policy.ts";
import { PolicyLimiter } from "../../../src/limits/limiter.ts";
import { clockOf } from "../../support/clock.ts";
import { askedRequest, limitedRequest } from "../../support/limited-request.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { smallTable } from "../small-table.ts";
import { Fleet, mostInWindow, shared, sharedNowMs, until } from "./fleet.ts";
import { flawsOf } from "./sound-table.ts";

const windowMs = 10;
const short: Policy = slidingPolicy({ limit: 5, windowMs });

test("admissions of two threads are never more than the limit in any trailing window", async () => {
  const fleet = new Fleet({ policies: [short], clients: 20, decisions: 40_000 });
  for (let i = 0; i < 2; i += 1) fleet.start();
  await fleet.go(2);
  await fleet.ended();
  const admissions = fleet.admissions();
  expect(admissions.length).toBeGreaterThan(100);
  expect(mostInWindow(admissions, windowMs)).toBe(5);
  expect(flawsOf(fleet.memory.table, fleet.memory.secret)).toEqual([]);
});

test("a request that has waited for a lock is charged at the instant at which it has it", () => {
  let nowMs = 0;
  const clock = clockOf(
    () => nowMs,
    () => 0,
  );
  const table = smallTable({ isShared: true });
  const limiter = new PolicyLimiter([short], { table, clock });
  const { request, head } = limitedRequest();
  nowMs = 25;
  expect(limiter.ask(askedRequest(request, head, 5), "anonymous")).toMatchObject({
    outcome: "admitted",
    resetMs: 25 + windowMs,
  });
  expect(limiter.show(request, 34)).toMatchObject({ remaining: 4 });
});

test("a thread that ends with a lock holds up the others only until it is recovered, and not the main thread", async () => {
  // As many as it takes: who of the two begins first, and how much sooner, is not known.
  const fleet = new Fleet({ policies: [short], clients: 1, decisions: 1_000_000_000 });
  onTestFinished(() => fleet.stop());
  const dying = fleet.start(10);
  fleet.start();
  await fleet.go(2);
  await until(() => Atomics.load(fleet.counts, shared.blocked) === dying);
  const left = Atomics.load(fleet.counts, shared.left);
  // The main thread does all that it does for the table, and waits for nothing.
  const beforeMs = sharedNowMs();
  while (!fleet.table.maintenance.sweep(sharedNowMs())) if (sharedNowMs() - beforeMs > 5000) break;
  const { shardCount } = fleet.table.maintenance;
  const copies = Array.from({ length: shardCount }, (_, index) => fleet.table.maintenance.copyShard(index));
  fleet.table.figures();
  fleet.table.maintenance.recover(64);
  expect(copies.filter((copy) => copy === null)).toHaveLength(1);
  expect(Atomics.load(fleet.counts, shared.left)).toBeGreaterThan(left - 2);
  await fleet.kill(dying);
  expect(fleet.endedInUpdate).toBe(1);
  const recovered = Atomics.load(fleet.counts, shared.left);
  await until(() => Atomics.load(fleet.counts, shared.left) < recovered - 1_000);
  fleet.stop();
  await fleet.ended();
  expect(mostInWindow(fleet.admissions(), windowMs)).toBeLessThanOrEqual(5);
  expect(flawsOf(fleet.memory.table, fleet.memory.secret)).toEqual([]);
});
