// Many keys in a table that is far too small for them, against naive logs of what it admitted: exact while its figures
// say that nothing was evicted, merged or counted coarsely, and never over a limit while nothing live was evicted.
import fc from "fast-check";
import { expect, test } from "vitest";
import { CounterTable, createTableMemory } from "../../../src/limits/table/counter-table.ts";
import { Locator } from "../../../src/limits/table/directory.ts";
import { geometryOf } from "../../../src/limits/table/layout.ts";
import { runs, scaled } from "../../support/runs.ts";
import { LimitedTable } from "../one-limit.ts";
import { addressAt, placeSecret } from "../small-table.ts";
import { flawsOf } from "./sound-table.ts";

/** Room for some 200 keys. */
const bytes = 32 * 1024;
const windowMs = 100;
const memory = createTableMemory(bytes);
const words = new Int32Array(memory);
const empty = words.slice();
const places = new Locator(geometryOf(bytes), placeSecret);

const scripts = fc.record({
  limit: fc.constantFrom(1, 1, 2, 3, 20, 20),
  /** How many clients come at random, and how many addresses each is apart from the next. */
  clients: fc.constantFrom(20, 60, 60, 200, 2000),
  apart: fc.constantFrom(1, 16, 256),
  /** Between two calls of a step. */
  paceMs: fc.constantFrom(0, 0.05),
  steps: fc.array(
    fc.record({
      seed: fc.nat({ max: 1_000_000 }),
      gapMs: fc.oneof(fc.constantFrom(0, 0, 0.25, 1), fc.nat({ max: 150 })),
      times: fc.constantFrom(1, 30, 300),
      does: fc.constantFrom("acquire", "acquire", "acquire", "acquire", "look", "give back", "sweep"),
    }),
    { minLength: 5, maxLength: 25, size: "max" },
  ),
});

/** Random scripts seldom have more exhausted clients than there is room for, so this is always one of them. */
const crowd = {
  ...({ limit: 1, clients: 2000, apart: 1, paceMs: 0 } as const),
  steps: Array.from({ length: 10 }, (_, seed) => ({ seed, gapMs: 0, times: 300, does: "acquire" }) as const),
};

/** What a table has admitted to each client. */
class Admissions {
  readonly #atMs = new Map<number, number[]>();

  counted(client: number, nowMs: number): number[] {
    return (this.#atMs.get(client) ?? []).filter((atMs) => nowMs < atMs + windowMs);
  }

  add(client: number, nowMs: number): void {
    this.#atMs.set(client, [...this.counted(client, nowMs), Math.ceil(nowMs)]);
  }

  /** Returns the instant of the newest; undefined if there is none. */
  giveBack(client: number, nowMs: number): number | undefined {
    const counted = this.counted(client, nowMs);
    const last = counted.pop();
    this.#atMs.set(client, counted);
    return last;
  }
}

test("is exact where nothing was evicted, merged or coarse, and never admits more than the limit of a key it kept", () => {
  const seen = { exact: 0, refused: 0, evicted: 0, coarse: 0, merged: 0, early: 0 };
  fc.assert(
    fc.property(scripts, ({ limit, clients, apart, paceMs, steps }) => {
      words.set(empty);
      const store = new LimitedTable({ limit, windowMs }, new CounterTable(memory, { secret: placeSecret }));
      const log = new Admissions();
      let nowMs = 1000;
      for (const { seed, gapMs, times, does } of steps) {
        nowMs += gapMs;
        if (does === "sweep") store.sweep(nowMs);
        const inexact: string[] = [];
        const excess: string[] = [];
        let answers = 0;
        for (let i = 0; i < times; i += 1) {
          nowMs += paceMs;
          const client = (seed + i * 7) % clients;
          const address = addressAt(client * apart);
          const before = log.counted(client, nowMs).length;
          if (does === "give back") {
            const atMs = log.giveBack(client, nowMs);
            if (atMs !== undefined) store.giveBack(address, atMs);
            continue;
          }
          const { outcome, remaining } = store[does === "acquire" ? "acquire" : "peek"](address, nowMs);
          const isAdmitted = outcome === "admitted";
          if (isAdmitted) log.add(client, nowMs);
          const left = limit - before - (isAdmitted ? 1 : 0);
          if (remaining !== left || (outcome === "throttled") !== (does === "acquire" && before >= limit))
            inexact.push(`${outcome} with ${before} of ${limit} counted, and ${remaining} left`);
          if (isAdmitted && before >= limit) excess.push(`admitted ${before + 1} of ${limit}`);
          answers += 1;
          if (outcome === "throttled") seen.refused += 1;
          if (outcome === "throttled" && before < limit) seen.early += 1;
        }
        const { evictedLive, merged, coarse } = store.stats();
        if (evictedLive === 0) expect(excess).toEqual([]);
        if (evictedLive + merged + coarse === 0) {
          expect(inexact).toEqual([]);
          seen.exact += answers;
        }
        const flaws = flawsOf(memory, placeSecret, places);
        if (flaws.length > 0) expect(flaws).toEqual([]);
      }
      const { evictedLive, merged, coarse } = store.stats();
      seen.evicted += evictedLive;
      seen.merged += merged;
      seen.coarse += coarse;
      // After a window, all is forgotten and no line is lost.
      store.sweep(nowMs + 2 * windowMs);
      expect(store.stats()).toMatchObject({ keys: 0, coarse: 0 });
      expect(store.table.figures().usedBytes).toBe(0);
    }),
    { ...runs(400), examples: [[crowd]] },
  );
  const { coarse, merged, ...often } = seen;
  for (const count of Object.values(often)) expect(count).toBeGreaterThan(scaled(1500));
  expect(coarse + merged).toBeGreaterThan(scaled(150));
});
