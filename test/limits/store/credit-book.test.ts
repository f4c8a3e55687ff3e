// What a thread remembers of the keys of each policy, and what it forgets first.
import { expect, test, vi } from "vitest";
import { CounterKey } from "../../../src/core/counter-key.ts";
import type { CounterRules } from "../../../src/limits/store/counter-rules.ts";
import { CreditBook, type KeyCredits, type PolicySource } from "../../../src/limits/store/credits.ts";
import { FakeClock } from "../../support/clock.ts";
import { addLease, rulesAhead } from "./some-credits.ts";

const key = new CounterKey(0, 0, 0xffff, 0xc0000201, true);
const source: PolicySource = {
  slot: 0,
  limit: rulesAhead.limit,
  rules: () => rulesAhead,
  periodOver() {},
  own: () => null,
};

function bookOf() {
  const clock = new FakeClock();
  const ended = vi.fn<(credits: KeyCredits) => void>();
  const book = new CreditBook(clock, { prefix: "p:", maxKeys: 1 }, { spent: 0, returned: 0 }, ended);
  const policy = book.policy("s/per-ip/client", source, 60_000);
  const create = (tag: string, rules: CounterRules = rulesAhead) => book.create(policy, tag, key, key, rules);
  return { book, clock, create, ended, policy };
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
  const credits = create("a1", { ...rulesAhead, untilUs: 60e6 });
  expect(policy.find("a1", { ...rulesAhead, untilUs: 60e6 })).toBe(credits);
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
  expect(ended.mock.calls.map(([credits]) => credits)).toEqual(all);
  expect([[...book.all()], [...book.policies]]).toEqual([[], []]);
});

test("a full policy forgets an idle key rather than one that holds units; of eight, the last", () => {
  const { book, create, ended, clock } = bookOf();
  for (let i = 0; i < 65_536; i += 1) {
    const credits = create(`a${i}`);
    // The first three hold units, and of the eight behind the next key each one does.
    if (i < 3 || (i > 3 && i < 12)) addLease(credits, "x", 1, clock.nowMs + 1_000);
  }
  create("b");
  expect(ended.mock.lastCall?.[0].tag).toBe("a3");
  create("c");
  expect(ended.mock.lastCall?.[0].tag).toBe("a11");
  expect([...book.all()]).toHaveLength(65_536);
});
