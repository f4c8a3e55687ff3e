// A calendar quota over years in which the wall clock is set forward and back, with restarts from snapshots: against a naive
// model of the calendar, and against what is left of it if nothing is known but the wall clock.
import fc from "fast-check";
import { expect, test } from "vitest";
import { calendarPeriods, type Decision, type PeriodName, type Policy, periodLengths } from "../../src/core/policy.ts";
import { describeRate } from "../../src/gateway/snapshots.ts";
import { createCalendar, type NextBorder } from "../../src/limits/calendar.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { decodeDescription, encodeDescription } from "../../src/limits/snapshot/format.ts";
import { Restore } from "../../src/limits/snapshot/restore.ts";
import type { CounterTable } from "../../src/limits/table/counter-table.ts";
import { recordsOf } from "../../src/limits/table/maintenance.ts";
import { FakeClock } from "../support/clock.ts";
import { decided } from "../support/decided.ts";
import { askedRequest, limitedRequest } from "../support/limited-request.ts";
import { slidingPolicy } from "../support/policy.ts";
import { runs, scaled } from "../support/runs.ts";
import { reusedTable } from "./small-table.ts";

const [second, hour, day] = [1000, 3_600_000, 86_400_000];
const limit = 3;
const clients = ["192.0.2.1", "192.0.2.7"] as const;

/** Whole seconds: the table keeps no more of the instants of a calendar. */
const spans = fc
  .tuple(fc.integer({ min: 1, max: 120 }), fc.constantFrom(second, 60 * second, hour, day, 10 * day))
  .map(([count, unit]) => count * unit);

const steps = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("ask" as const),
      client: fc.constantFrom(...clients),
      times: fc.constantFrom(1, 2, limit + 1),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("wait" as const),
      client: fc.constantFrom(...clients),
      forwardMs: fc.oneof(fc.constant(0), spans),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("pass" as const), ms: spans }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("back" as const), ms: spans }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("forward" as const), ms: spans }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("right" as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("restart" as const), downMs: fc.constantFrom(0, 60_000, day) }),
  },
);

const scenarios = fc.record({
  per: fc.constantFrom(...calendarPeriods),
  timezone: fc.constantFrom("UTC", "Europe/Berlin", "America/St_Johns"),
  startMs: fc.integer({ min: Date.UTC(2026, 0) / second, max: Date.UTC(2027, 0) / second }).map((at) => at * second),
  script: fc.array(steps, { minLength: 10, maxLength: 60, size: "max" }),
});

type Scenario = typeof scenarios extends fc.Arbitrary<infer T> ? T : never;

/** Made once each, because that takes long. */
const borders = new Map<string, NextBorder>();

function borderOf(per: PeriodName, timezone: string): NextBorder {
  const name = `${per} ${timezone}`;
  const known = borders.get(name) ?? createCalendar(per, timezone);
  borders.set(name, known);
  return known;
}

/** The calendar as the page describes it. */
class NaiveCalendar {
  readonly #nextBorder: NextBorder;
  readonly #longestMs: number;
  readonly #used = new Map<string, number>();
  #endMs = 0;
  /** What the calendar showed when the period began or the process started, and when that was. */
  #shownMs = 0;
  #atMs = 0;
  #lastMs = 0;

  constructor({ per, timezone }: Pick<Scenario, "per" | "timezone">) {
    this.#nextBorder = borderOf(per, timezone);
    this.#longestMs = periodLengths[per].longestMs;
  }

  /** Returns whether a request fits; if not, when it does. */
  take(client: string, wallMs: number, nowMs: number): number | null {
    if (wallMs >= this.#endMs || nowMs >= this.#lastMs) {
      const shownMs = wallMs >= this.#endMs ? wallMs : this.shown(nowMs);
      const endMs = this.#begin(shownMs, wallMs, nowMs, this.#nextBorder);
      if (endMs <= this.#endMs) throw new Error("a period came again");
      this.#endMs = endMs;
      this.#used.clear();
    }
    const used = this.#used.get(client) ?? 0;
    if (used === limit) return Math.min(nowMs + this.#endMs - wallMs, this.#lastMs);
    this.#used.set(client, used + 1);
    return null;
  }

  shown(nowMs: number): number {
    return this.#shownMs + (nowMs - this.#atMs);
  }

  /** `stoppedMs`, `nowMs`: by the monotonic clocks of the two processes. A wall clock that may be wrong decides nothing yet. */
  restart(stoppedMs: number, wallMs: number, nowMs: number): void {
    const shownMs = this.shown(stoppedMs);
    const latestMs = wallMs >= this.#endMs ? shownMs : Math.max(wallMs, shownMs);
    this.#begin(latestMs, Math.min(latestMs, wallMs), nowMs, () => this.#endMs);
  }

  #begin(shownMs: number, wallMs: number, nowMs: number, border: NextBorder): number {
    const endMs = border(shownMs);
    this.#shownMs = shownMs;
    this.#atMs = nowMs;
    this.#lastMs = nowMs + (endMs - shownMs) + (shownMs - wallMs <= this.#longestMs ? this.#longestMs : 0);
    return endMs;
  }
}

/** A gateway's limiter, and the clocks of its machine. */
class Trial {
  readonly clock = new FakeClock();
  readonly #policy: Policy;
  readonly #model: NaiveCalendar;
  #table: CounterTable;
  #limiter: PolicyLimiter;
  refusals = 0;
  restarts = 0;
  /** By the latest period that the wall clock has shown: since when, and what was admitted, by client. */
  readonly #bound: { endMs: number; passedMs: number; readonly admitted: Map<string, number> };
  readonly #nextBorder: NextBorder;
  readonly #startMs: number;
  #passedMs = 0;

  constructor({ per, timezone, startMs }: Scenario) {
    this.#startMs = startMs;
    this.clock.stepWall(startMs - this.clock.wallMs());
    this.#policy = { ...slidingPolicy({ limit, windowMs: 1 }), rate: { kind: "calendar", per, timezone } };
    this.#model = new NaiveCalendar({ per, timezone });
    this.#nextBorder = borderOf(per, timezone);
    this.#bound = { endMs: 0, passedMs: 0, admitted: new Map() };
    this.#table = reusedTable();
    this.#limiter = this.#createLimiter();
  }

  pass(ms: number): void {
    this.clock.advance(ms);
    this.#passedMs += ms;
  }

  /** Sets the wall clock to the time that has passed since the start. */
  setRight(): void {
    this.clock.stepWall(this.#startMs + this.#passedMs - this.clock.wallMs());
  }

  ask(client: string): Decision {
    const { request, head } = limitedRequest({ client });
    const decision = decided(this.#limiter.ask(askedRequest(request, head, this.clock.nowMs), "anonymous"));
    const fitsMs = this.#model.take(client, this.clock.wallMs(), this.clock.nowMs);
    const expected = fitsMs === null ? ["admitted"] : ["throttled", fitsMs];
    const actual = fitsMs === null ? [decision.outcome] : [decision.outcome, decision.resetMs];
    if (actual.join() !== expected.join()) expect(actual).toEqual(expected);
    if (fitsMs === null) this.#keepsBound(client);
    else this.refusals += 1;
    return decision;
  }

  /** Waits as long as a refusal says, while the wall clock may be set forward. */
  wait(client: string, forwardMs: number): void {
    const { outcome, resetMs } = this.ask(client);
    if (outcome !== "throttled") return;
    const waitMs = resetMs - this.clock.nowMs;
    if (waitMs > 2 * periodLengths[this.#per].longestMs) throw new Error(`a wait of ${waitMs} ms`);
    this.pass(waitMs - second);
    if (forwardMs === 0 && this.ask(client).outcome === "admitted") throw new Error("admitted before Retry-After");
    this.clock.stepWall(forwardMs);
    this.pass(second);
    if (this.ask(client).outcome === "throttled") throw new Error("refused after Retry-After");
  }

  restart(downMs: number): void {
    this.restarts += 1;
    const table = this.#table;
    const shards = Array.from({ length: table.maintenance.shardCount }, (_, i) => table.maintenance.copyShard(i));
    const rate = describeRate(this.#policy.rate, table, 0);
    if (rate === null) throw new Error("a calendar is described");
    const { name, key } = this.#policy;
    const secret = Buffer.alloc(16, 7);
    const written = decodeDescription(
      encodeDescription({
        ...{ wallMs: this.clock.wallMs(), tableMs: this.clock.nowMs, placeSecret: secret, keySecret: secret },
        ...{ owner: null, trialSinceMs: null, policies: [{ slot: 0, name, key, rate }] },
      }),
    );
    if (written === null) throw new Error("the description can be read");
    const stoppedMs = this.clock.nowMs;
    this.pass(downMs);
    // The monotonic clock of another process has another beginning.
    const movedMs = 77_000 - this.clock.nowMs;
    this.clock.nowMs += movedMs;
    this.clock.wallOffsetMs -= movedMs;
    const reading = { wallMs: this.clock.wallMs(), tableMs: this.clock.nowMs };
    const restore = new Restore(written, [{ slot: 0, policy: this.#policy }], reading);
    this.#table = reusedTable();
    for (const { slot, period, end } of restore.periods) this.#table.periodOf(slot).restore(period, end);
    for (const shard of shards) {
      for (const record of shard === null ? [] : recordsOf(shard)) {
        const after = restore.record(record);
        if (after !== null) this.#table.maintenance.restore(after);
      }
    }
    this.#limiter = this.#createLimiter();
    this.#model.restart(stoppedMs, reading.wallMs, reading.tableMs);
  }

  get #per(): PeriodName {
    const { rate } = this.#policy;
    return rate.kind === "calendar" ? rate.per : "month";
  }

  /** However often the clock is set: a quota, what is left of the one before, and one for each period that passes. */
  #keepsBound(client: string): void {
    const bound = this.#bound;
    if (this.clock.wallMs() >= bound.endMs) {
      bound.endMs = this.#nextBorder(this.clock.wallMs());
      bound.passedMs = this.#passedMs;
      bound.admitted.clear();
    }
    const admitted = (bound.admitted.get(client) ?? 0) + 1;
    bound.admitted.set(client, admitted);
    const periods = Math.floor((this.#passedMs - bound.passedMs) / shortestMs(this.#per));
    if (admitted > (2 + periods) * limit) throw new Error(`${admitted} in ${periods} periods`);
  }

  #createLimiter(): PolicyLimiter {
    return new PolicyLimiter([this.#policy], { clock: this.clock, table: this.#table });
  }
}

/** With a change of the clocks by an hour; by half an hour for the period that lasts one. */
function shortestMs(per: PeriodName): number {
  const { shortestMs } = periodLengths[per];
  return shortestMs < hour ? shortestMs : shortestMs - Math.min(hour, shortestMs / 2);
}

test("no step of the wall clock back refills a quota, over years and restarts, and every refusal says when to come", () => {
  const seen = { refusals: 0, restarts: 0 };
  fc.assert(
    fc.property(scenarios, (scenario) => {
      const trial = new Trial(scenario);
      for (const step of scenario.script) {
        switch (step.kind) {
          case "ask":
            for (let i = 0; i < step.times; i += 1) trial.ask(step.client);
            break;
          case "wait":
            trial.wait(step.client, step.forwardMs);
            break;
          case "pass":
            trial.pass(step.ms);
            break;
          case "back":
            trial.clock.stepWall(-step.ms);
            break;
          case "forward":
            trial.clock.stepWall(step.ms);
            break;
          case "right":
            trial.setRight();
            break;
          case "restart":
            trial.restart(step.downMs);
            break;
        }
      }
      seen.refusals += trial.refusals;
      seen.restarts += trial.restarts;
    }),
    runs(2_000, 40),
  );
  expect(seen.refusals).toBeGreaterThan(scaled(5_000, 40));
  expect(seen.restarts).toBeGreaterThan(scaled(1_000, 40));
});
