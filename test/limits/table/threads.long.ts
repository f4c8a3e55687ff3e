// Four threads on one table: a million decisions, policies of several kinds, and threads that end at any instant. What
// is measured is printed; the machine that runs this may be busy, so the bounds of times are wide.
import { expect, test } from "vitest";
import type { Policy } from "../../../src/core/policy.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { seededRandom } from "../../support/random.ts";
import { Fleet, mostAtOnce, mostInWindow } from "./fleet.ts";
import { flawsOf } from "./sound-table.ts";

const threads = 4;
const short: Policy = slidingPolicy({ limit: 5, windowMs: 10 });
const long: Policy = slidingPolicy({ name: "long", limit: 20, windowMs: 100 });
const slots: Policy = { ...slidingPolicy({ name: "slots", limit: 2, windowMs: 10 }), rate: { kind: "concurrency" } };
const failures: Policy = slidingPolicy({ name: "failures", limit: 30, windowMs: 100, chargeStatuses: [200] });

async function startedFleet(policies: readonly Policy[], clients: number, decisions: number): Promise<Fleet> {
  const fleet = new Fleet({ policies, clients, decisions });
  for (let i = 0; i < threads; i += 1) fleet.start();
  await fleet.go(threads);
  return fleet;
}

function expectSound({ memory }: Fleet): void {
  expect(flawsOf(memory.table, memory.secret)).toEqual([]);
}

test("a million decisions on 100 keys: never more than the limit in any trailing window", async ({ annotate }) => {
  const fleet = await startedFleet([short], 100, 1_000_000);
  await fleet.ended();
  const admissions = fleet.admissions();
  await annotate(`${admissions.length} admitted, longest decision ${fleet.longestMs} ms`);
  expect(mostInWindow(admissions, 10)).toBe(5);
  expectSound(fleet);
});

test("two policies on 20 keys, all charged or none, with slots and units by status", async ({ annotate }) => {
  const fleet = await startedFleet([short, long, slots, failures], 20, 400_000);
  await fleet.ended();
  const admissions = fleet.admissions();
  await annotate(`${admissions.length} admitted, longest decision ${fleet.longestMs} ms`);
  expect(mostInWindow(admissions, 10)).toBe(5);
  expect(mostInWindow(admissions, 100)).toBe(20);
  expect(mostAtOnce(admissions)).toBeLessThanOrEqual(2);
  expectSound(fleet);
});

test("threads that end at random instants hold up nobody, and nobody gets more than the limit", async ({
  annotate,
}) => {
  const fleet = await startedFleet([short, long, slots], 20, 1_000_000_000);
  const random = seededRandom(1);
  for (let i = 0; i < 40; i += 1) {
    // A thread takes longer to start than the pause: without this, most would end before their first decision.
    await fleet.areReady(threads + i);
    await new Promise((resolve) => setTimeout(resolve, random() * 50));
    const running = [...fleet.workers.keys()];
    await fleet.kill(running[Math.floor(random() * running.length)] ?? 0);
    fleet.start();
  }
  fleet.stop();
  await fleet.ended();
  const admissions = fleet.admissions();
  const delays = fleet.endedAfterMs.toSorted((a, b) => a - b);
  await annotate(`${fleet.endedInUpdate} of ${delays.length} with locks; longest decision ${fleet.longestMs} ms`);
  await annotate(`from terminate to exit: median ${delays[20]} ms, longest ${delays.at(-1)} ms`);
  expect(fleet.endedInUpdate).toBeGreaterThan(0);
  expect(mostInWindow(admissions, 10)).toBe(5);
  expect(mostInWindow(admissions, 100)).toBe(20);
  expect(mostAtOnce(admissions)).toBeLessThanOrEqual(2);
  expectSound(fleet);
});
