import fc from "fast-check";
import { expect, test } from "vitest";
import { PeriodCount } from "../../src/core/period-count.ts";
import { type TimedWindow, TimedWindows } from "../../src/limits/timed-windows.ts";

test("is a sorted array: the first, each by its name, and how many, after any additions and deletions", () => {
  // A few instants, so that many are equal; a few names, so that many are deleted that are there.
  const additions = fc.record({ client: fc.nat({ max: 40 }), atMs: fc.nat({ max: 12 }) });
  const steps = fc.array(fc.oneof({ weight: 2, arbitrary: additions }, fc.nat({ max: 40 }), fc.constant("first")), {
    maxLength: 120,
    size: "max",
  });
  fc.assert(
    fc.property(steps, (script) => {
      const timed = new TimedWindows();
      let model: TimedWindow[] = [];
      for (const step of script) {
        const name =
          step === "first" ? (timed.first()?.key ?? "none") : `${typeof step === "number" ? step : step.client}`;
        const known = model.find(({ key }) => key === name);
        if (typeof step === "object" && known === undefined) {
          const added = { key: name, counter: new PeriodCount(), atMs: step.atMs };
          timed.add(name, added.counter, step.atMs);
          model = [...model, added].sort((a, b) => a.atMs - b.atMs);
        } else {
          expect(timed.get(name)?.counter).toBe(known?.counter);
          expect(timed.delete(name)).toBe(known !== undefined);
          model = model.filter((one) => one !== known);
        }
        expect(timed.size).toBe(model.length);
        expect(timed.first()?.atMs).toBe(model[0]?.atMs);
      }
      const drained: number[] = [];
      for (let next = timed.first(); next !== undefined; next = timed.first()) {
        drained.push(next.atMs);
        timed.delete(next.key);
      }
      expect(drained).toEqual(model.map(({ atMs }) => atMs));
    }),
    { numRuns: 300 },
  );
});
