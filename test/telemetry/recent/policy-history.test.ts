// What each policy said in the last minutes, from totals that are read once in a step, whatever reloads do to the policies.
import { expect, test } from "vitest";
import { PolicyHistory, type PolicyTotals } from "../../../src/telemetry/recent/policy-history.ts";
import { maxSteps, stepMs } from "../../../src/telemetry/recent/steps.ts";

const startMs = 1_000 * stepMs;
const wallOffsetMs = 1_700_000_000_000;

function totalsOf(policy: string, admitted: number, throttled = 0, would_throttle = 0, unavailable = 0): PolicyTotals {
  return { policy, outcomes: { admitted, throttled, would_throttle, unavailable } };
}

/** `read`: ends so many steps. */
function open() {
  const history = new PolicyHistory(startMs);
  let nowMs = startMs;
  const view = () => history.view(nowMs, nowMs + wallOffsetMs);
  return {
    read(all: readonly PolicyTotals[], steps = 1) {
      nowMs += steps * stepMs;
      history.read(() => all, nowMs);
    },
    pass: (ms: number) => {
      nowMs += ms;
    },
    view,
    admitted: (policy: string) => view().policies.find((each) => each.policy === policy)?.counts.admitted,
    names: () => view().policies.map(({ policy }) => policy),
  };
}

test("a step has what each policy said in it, and totals before the first step count from the start", () => {
  const { read, view } = open();
  expect(view()).toEqual({ stepMs, endMs: null, durationsMs: [], policies: [] });
  read([totalsOf("a", 3, 2, 1, 4), totalsOf("b", 0)]);
  read([totalsOf("a", 10, 2, 2, 4), totalsOf("b", 5)]);
  expect(view()).toEqual({
    ...{ stepMs, endMs: startMs + 2 * stepMs + wallOffsetMs, durationsMs: [stepMs, stepMs] },
    policies: [
      { policy: "a", counts: { admitted: [3, 7], throttled: [2, 0], would_throttle: [1, 1], unavailable: [4, 0] } },
      { policy: "b", counts: { admitted: [0, 5], throttled: [0, 0], would_throttle: [0, 0], unavailable: [0, 0] } },
    ],
  });
});

test("a second reading within a step changes nothing, and one after several steps leaves gaps", () => {
  const { read, pass, view, admitted } = open();
  read([totalsOf("a", 1)]);
  pass(stepMs - 1);
  read([totalsOf("a", 50)], 0);
  expect(admitted("a")).toEqual([1]);
  pass(1);
  read([totalsOf("a", 60)], 2);
  expect([view().durationsMs, admitted("a")]).toEqual([
    [stepMs, null, null, 3 * stepMs],
    [1, null, null, 59],
  ]);
});

test("a policy that a reload adds is counted from its first reading on, and others keep their past", () => {
  const { read, admitted } = open();
  read([totalsOf("a", 1)]);
  read([totalsOf("new", 100), totalsOf("a", 3)]);
  read([totalsOf("new", 104), totalsOf("a", 6)]);
  expect([admitted("a"), admitted("new")]).toEqual([
    [1, 2, 3],
    [null, null, 4],
  ]);
});

test("a policy that comes back keeps its past, whether its totals go on or begin again", () => {
  for (const [back, expected] of [
    [12, 2],
    [4, 4],
  ] as const) {
    const { read, admitted } = open();
    read([totalsOf("a", 10)]);
    read([]);
    read([totalsOf("a", back)]);
    expect(admitted("a")).toEqual([10, null, expected]);
  }
});

test("what is older than 15 minutes is forgotten, with policies that are away for so long", () => {
  const { read, admitted, names, view } = open();
  read([totalsOf("a", 7), totalsOf("gone", 7)]);
  for (let i = 1; i < maxSteps; i += 1) read([totalsOf("a", 7 + i)]);
  expect([names(), admitted("a")?.[0], admitted("gone")?.[0]]).toEqual([["gone", "a"], 7, 7]);
  read([totalsOf("a", 7 + maxSteps)]);
  expect([names(), view().durationsMs.length]).toEqual([["a"], maxSteps]);
  expect(admitted("a")).toEqual(new Array(maxSteps).fill(1));
  read([totalsOf("a", 1_000)], 2 * maxSteps);
  expect(admitted("a")?.filter((count) => count !== null)).toEqual([1_000 - 7 - maxSteps]);
});

test("64 policies are kept: those that were there last", () => {
  const { read, names, admitted } = open();
  const all = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => totalsOf(`p${from + i}`, 9));
  read(all(0, 32));
  read(all(32, 64));
  read(all(64, 96));
  read(all(64, 96));
  expect([names().length, names().includes("p31"), names().includes("p32")]).toEqual([64, false, true]);
  // In the place of another one, of which nothing is left.
  expect(admitted("p64")).toEqual([null, null, null, 0]);
});
