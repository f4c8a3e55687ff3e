// Several threads on one table: never more than the limit, whatever their order is, and whichever of them end.
import { expect, test } from "vitest";
import type { Policy } from "../../../src/core/policy.ts";
import { PolicyLimiter } from "../../../src/limits/policy-limiter.ts";
import { CounterTable, createTableMemory } from "../../../src/limits/table/counter-table.ts";
import { minTableBytes } from "../../../src/limits/table/layout.ts";
import { limitedRequest } from "../../support/limited-request.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { Fleet, mostInWindow } from "./fleet.ts";
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
  const clock = { monotonicMs: () => nowMs, wallMs: () => 0 };
  const table = new CounterTable(createTableMemory(minTableBytes), { secret: new Uint8Array(16), isShared: true });
  const limiter = new PolicyLimiter([short], { table, clock });
  const { request, head } = limitedRequest();
  nowMs = 25;
  expect(limiter.acquire(request, head, 5)).toMatchObject({ outcome: "admitted", resetMs: 25 + windowMs });
  expect(limiter.peek(request.client, request.counterKey, 34)).toMatchObject({ remaining: 4 });
});
