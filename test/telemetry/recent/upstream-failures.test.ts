// What failed at the upstream is counted by reason and address, however many there are of either.
import { expect, test } from "vitest";
import { FailureCounts } from "../../../src/telemetry/recent/upstream-failures.ts";

const reset = { reason: "reset", address: "10.0.0.1:80", count: 1 } as const;
const refused = { reason: "refused", address: null, count: 3 } as const;

test("of too many addresses, the failures of the others are told together by their reason", () => {
  const failures = new FailureCounts();
  for (const each of [reset, reset]) failures.add(each);
  expect(failures.all).toEqual([{ ...reset, count: 2 }]);
  for (let i = 0; i < 200; i += 1) failures.add({ ...reset, address: `10.0.1.${i}:80` });
  failures.add(refused);
  expect(failures.all).toHaveLength(66);
  expect(failures.all.slice(64)).toEqual([{ ...reset, address: null, count: 137 }, refused]);
});

test("a failure is in the sums as long as its step, and gaps are steps", () => {
  const failures = new FailureCounts(3);
  failures.add(reset);
  failures.endStep(0);
  for (const each of [reset, refused]) failures.add(each);
  expect(failures.all).toEqual([{ ...reset, count: 2 }, refused]);
  failures.endStep(0);
  expect(failures.all).toEqual([{ ...reset, count: 2 }, refused]);
  failures.endStep(0);
  expect(failures.all).toEqual([reset, refused]);
  failures.add(refused);
  failures.endStep(1);
  expect(failures.all).toEqual([refused]);
  failures.endStep(180);
  failures.endStep(0);
  expect(failures.all).toEqual([]);
});

test("addresses that change in each step take no more memory, and make room for new ones", () => {
  const failures = new FailureCounts(60);
  for (let step = 0; step < 180; step += 1) {
    for (let i = 0; i < 64; i += 1) failures.add({ ...reset, address: `10.0.${step}.${i}:80` });
    expect(failures.all.length).toBeLessThanOrEqual(65);
    failures.endStep(0);
  }
  failures.endStep(59);
  failures.add({ ...reset, address: "10.0.2.1:80" });
  expect(failures.all).toEqual([{ ...reset, address: "10.0.2.1:80" }]);
});
