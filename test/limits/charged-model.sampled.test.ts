// What a refusal beside held units promises, whatever happens between: a second if it would not stand without them, and
// then a request is admitted when all are given back; otherwise it stands, whatever becomes of them.

import fc from "fast-check";
import { expect, test } from "vitest";
import { CalendarCounters } from "../../src/limits/calendar-counters.ts";
import { SlidingCounters } from "../../src/limits/counters.ts";
import type { CounterTable } from "../../src/limits/table/counter-table.ts";
import { FakeClock } from "../support/clock.ts";
import { runs, scaled } from "../support/runs.ts";
import { type Asking, askCharged } from "./asking.ts";
import { keyOf, reusedTable } from "./small-table.ts";

const client = keyOf("192.0.2.1");
const slot = 7;
const longestMs = 60_000;

const steps = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("ask" as const),
      times: fc.integer({ min: 1, max: 6 }),
      /** Whether the status of the admitted is known at once, and they are kept. */
      keeps: fc.boolean(),
      /** Whether all that is held is given back after a refusal. */
      settles: fc.nat({ max: 2 }).map((drawn) => drawn === 0),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("end" as const),
      which: fc.nat({ max: 5 }),
      keeps: fc.boolean(),
      times: fc.integer({ min: 1, max: 5 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("gap" as const), ms: fc.constantFrom(1, 6_000, 20_000, 40_000) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("reload" as const),
      windowMs: fc.constantFrom(10_000, 30_000, longestMs),
    }),
  },
);
const scenarios = fc.record({
  rate: fc.constantFrom("sliding" as const, "calendar" as const),
  // With the larger limit, instants that are close together are one.
  limitAndCost: fc.constantFrom([5, 1] as const, [7, 2] as const, [20_000, 4_000] as const),
  script: fc.array(steps, { minLength: 5, maxLength: 40, size: "max" }),
});

type Step = typeof steps extends fc.Arbitrary<infer T> ? T : never;
type Scenario = typeof scenarios extends fc.Arbitrary<infer T> ? T : never;

class Trial {
  promises = 0;
  ends = 0;
  readonly #clock = new FakeClock();
  readonly #table: CounterTable;
  readonly #scenario: Scenario;
  #counters: Asking;
  #open: { readonly counters: Asking; readonly charged: number }[] = [];

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
    this.#table = reusedTable();
    this.#counters = this.#create(longestMs, null);
  }

  do(step: Step): void {
    switch (step.kind) {
      case "ask":
        for (let i = 0; i < step.times; i += 1) this.#ask(step);
        break;
      case "end":
        for (let i = 0; i < step.times; i += 1) this.#end(i === 0 ? step.which : 0, step.keeps);
        break;
      case "gap":
        this.#clock.advance(step.ms);
        break;
      case "reload":
        // What is given back to a window of other groups may not be found.
        if (!this.#isGrouped) this.#counters = this.#create(step.windowMs, this.#counters);
        break;
    }
  }

  #ask({ keeps, settles }: { readonly keeps: boolean; readonly settles: boolean }): void {
    const promisedMs = this.#refusedMs(true);
    if (promisedMs === null) {
      if (keeps) this.#end(0, true);
      return;
    }
    const isPromise = this.#counters.mayEndSoon;
    if (isPromise) expect(promisedMs).toBe(1000);
    if (!settles) return;
    while (this.#open.length > 0) this.#end(0, false);
    const isRefused = this.#refusedMs(false) !== null;
    if (isPromise) expect(isRefused).toBe(false);
    else if (promisedMs > 1000) expect(isRefused).toBe(true);
    this.promises += isPromise ? 1 : 0;
    this.ends += isPromise ? 0 : 1;
  }

  /** Null if the request is admitted; `charges`: then its units are held. */
  #refusedMs(charges: boolean): number | null {
    const {
      limitAndCost: [limit, cost],
    } = this.#scenario;
    const { nowMs } = this.#clock;
    const counters = this.#counters;
    counters.select(client, client);
    this.#table.locks.acquire();
    try {
      const fits = counters.ask(limit, cost, nowMs);
      if (fits && charges) this.#open.push({ counters, charged: counters.charge() });
      return fits ? null : counters.resetMs - nowMs;
    } finally {
      this.#table.locks.release();
    }
  }

  #end(which: number, isKept: boolean): void {
    const {
      limitAndCost: [limit, cost],
    } = this.#scenario;
    const [exchange] = this.#open.splice(-1 - which, 1);
    if (exchange === undefined) return;
    const { counters, charged } = exchange;
    if (isKept) counters.keep(client, client, limit, cost, charged);
    else counters.giveBack(client, client, limit, cost, charged);
  }

  #create(windowMs: number, previous: Asking | null): Asking {
    const {
      rate,
      limitAndCost: [limit, cost],
    } = this.#scenario;
    const rules = { kind: rate, windowMs, limit, cost };
    const calendar = { per: windowMs === longestMs ? "hour" : "minute", timezone: "UTC" } as const;
    const all =
      rate === "sliding"
        ? new SlidingCounters(this.#table, slot, rules)
        : new CalendarCounters(this.#table, slot, rules, calendar, this.#clock);
    return askCharged(all, this.#table, slot, previous !== null);
  }

  get #isGrouped(): boolean {
    return this.#scenario.limitAndCost[0] > 10_000;
  }
}

test("a refusal that promises a second ends when all that is held is given back, and no other refusal does", () => {
  const seen = { promises: 0, ends: 0 };
  fc.assert(
    fc.property(scenarios, (scenario) => {
      const trial = new Trial(scenario);
      for (const step of scenario.script) trial.do(step);
      seen.promises += trial.promises;
      seen.ends += trial.ends;
    }),
    runs(20_000, 50),
  );
  expect(seen.promises).toBeGreaterThan(scaled(10_000, 50));
  expect(seen.ends).toBeGreaterThan(scaled(10_000, 50));
});
