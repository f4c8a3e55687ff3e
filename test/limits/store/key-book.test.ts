// What a thread remembers of the keys of each policy, and what it forgets first.
import { describe, expect, test, vi } from "vitest";
import { CounterKey } from "../../../src/core/counter-key.ts";
import type { CounterRules } from "../../../src/limits/store/counter-rules.ts";
import { KeyBook, mostKeys } from "../../../src/limits/store/key-book.ts";
import type { PolicySource, SharedKey } from "../../../src/limits/store/shared-key.ts";
import { ManualTimers } from "./manual-timers.ts";
import { addLease, answerOf, rulesAhead } from "./some-keys.ts";

const key = new CounterKey(0, 0, 0xffff, 0xc0000201, true);
const source: PolicySource = {
  slot: 0,
  limit: rulesAhead.limit,
  rules: () => rulesAhead,
  periodOver() {},
  own: () => null,
};

function bookOf() {
  const timers = new ManualTimers();
  const { clock } = timers;
  const ended = vi.fn<(known: SharedKey) => void>();
  const book = new KeyBook({ timers, clock }, { prefix: "p:", maxKeys: 1 }, { spent: 0, returned: 0 }, ended);
  const policy = book.policy("s/per-ip/client", source, 60_000);
  const create = (tag: string, rules: CounterRules = rulesAhead) => book.create(policy, tag, key, key, rules);
  return { book, clock, create, ended, policy, timers };
}

test("a key of a calendar's period has its end in its name, in seconds", () => {
  const { create } = bookOf();
  expect(create("a1").storeKey).toBe("p:1:{a1}:s/per-ip/client");
  expect(create("a1", { ...rulesAhead, untilUs: 1_800_000_060e6 }).storeKey).toBe(
    "p:1:{a1}:s/per-ip/client/1800000060",
  );
});

test("what is known of another period is not found", () => {
  const { create, policy } = bookOf();
  const known = create("a1", { ...rulesAhead, untilUs: 60e6 });
  expect(policy.find("a1", { ...rulesAhead, untilUs: 60e6 })).toBe(known);
  expect(policy.find("a1", { ...rulesAhead, untilUs: 120e6 })).toBeUndefined();
});

test("what is known of a key by another limit is kept apart", () => {
  const { create, policy } = bookOf();
  const override = { ...rulesAhead, limit: 5 };
  const [own, overridden] = [create("a1"), create("a1", override)];
  expect(policy.find("a1", rulesAhead)).toBe(own);
  expect(policy.find("a1", override)).toBe(overridden);
  expect(own.storeKey).toBe(overridden.storeKey);
});

test("a policy that is gone returns all that was held for it", () => {
  const { book, create, ended, policy } = bookOf();
  const all = [create("a1"), create("a2")];
  book.retire(policy);
  expect(ended.mock.calls.map(([known]) => known)).toEqual(all);
  expect([[...book.all()], [...book.policies]]).toEqual([[], []]);
});

test("when there are too many of all policies, an idle key goes rather than one that holds units; of eight, the last", () => {
  const { book, create, ended, clock } = bookOf();
  const other = book.policy("s/other/client", source, 60_000);
  for (let i = 0; i < mostKeys; i += 1) {
    const known = i % 2 === 0 ? create(`a${i}`) : book.create(other, `a${i}`, key, key, rulesAhead);
    // The first three hold units, and of the eight behind the next key each one does.
    if (i < 3 || (i > 3 && i < 12)) addLease(known, "x", 1, clock.nowMs + 1_000);
  }
  create("b");
  expect(ended.mock.lastCall?.[0].tag).toBe("a3");
  create("c");
  expect(ended.mock.lastCall?.[0].tag).toBe("a11");
  expect([...book.all()]).toHaveLength(mostKeys);
  expect(other.find("a11", rulesAhead)).toBeUndefined();
});

describe("a key is forgotten", () => {
  test.each<[string, (known: SharedKey, nowMs: number) => unknown]>([
    ["what the store has said of it is over", (of, nowMs) => answer(of, { resetUs: 9e6, free: 3 }, nowMs)],
    ["a refused request fits", (of, nowMs) => answer(of, { resetUs: 1e6, fitsUs: 9e6 }, nowMs)],
    [
      "its clients are not counted as one any more",
      (of, nowMs) => Object.assign(of.untold, { knownUntilMs: nowMs + 9_000 }),
    ],
  ])("when %s", (_, make) => {
    const { book, clock, create, ended, policy, timers } = bookOf();
    const known = create("n1");
    make(known, clock.nowMs);
    timers.advance(8_999);
    expect([policy.find("n1", rulesAhead), policy.networks]).toEqual([known, 1]);
    // In one turn it is looked at, and the next one begins again.
    timers.advance(501);
    expect([policy.find("n1", rulesAhead), policy.networks, [...book.all()]]).toEqual([undefined, 0, []]);
    expect(ended).not.toHaveBeenCalled();
  });

  test.each<[string, (known: SharedKey) => unknown]>([
    ["holds units", (known) => addLease(known, "x", 1, Number.POSITIVE_INFINITY)],
    ["has a lease to report", (known) => addLease(known, "x", 1, 0) && known.endAll()],
    ["is asked for, or about to be", (known) => Object.assign(known, { calls: 1 })],
    ["has admitted what the store does not know", ({ untold }) => Object.assign(untold, { requests: 1 })],
    ["has that, and must not tell it yet", ({ untold }) => Object.assign(untold, { requests: 1, isVoid: true })],
  ])("but not while it %s", (_, make) => {
    const { clock, create, policy, timers } = bookOf();
    const known = create("a1");
    make(known);
    clock.nowMs += 1e9;
    timers.advance(500);
    expect(policy.find("a1", rulesAhead)).toBe(known);
  });

  test("in turns that look at a bounded number, and nothing is looked at when none is left", () => {
    const { book, create, timers } = bookOf();
    for (let i = 0; i < 3_000; i += 1) create(`a${i}`);
    const left: number[] = [];
    for (let i = 0; i < 4; i += 1) {
      timers.advance(250);
      left.push([...book.all()].length);
    }
    expect(left).toEqual([1_976, 952, 0, 0]);
    expect(timers.waiting).toBe(0);
  });

  test("whatever the limit of its policy has become", () => {
    const { book, create, policy, timers } = bookOf();
    create("a1");
    policy.source = { ...source, limit: rulesAhead.limit + 1 };
    timers.advance(500);
    expect([[...book.all()], policy.keys.size]).toEqual([[], 0]);
  });
});

function answer(known: SharedKey, parts: Parameters<typeof answerOf>[0], nowMs: number): void {
  known.answered(answerOf({ granted: 1, ...parts }), { isRefused: false }, nowMs, nowMs);
}
