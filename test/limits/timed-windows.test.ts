import fc from "fast-check";
import { expect, test } from "vitest";
import { SlidingWindow } from "../../src/core/sliding-window.ts";
import { type TimedWindow, TimedWindows } from "../../src/limits/timed-windows.ts";

const policy = { name: "test", limit: 1, windowMs: 1, maxClients: 1 };

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
          step === "first" ? (timed.first()?.client ?? "none") : `${typeof step === "number" ? step : step.client}`;
        const known = model.find(({ client }) => client === name);
        if (typeof step === "object" && known === undefined) {
          const added = { client: name, window: new SlidingWindow(policy), atMs: step.atMs };
          timed.add(added);
          model = [...model, added].sort((a, b) => a.atMs - b.atMs);
        } else {
          expect(timed.get(name)).toBe(known?.window);
          expect(timed.delete(name)).toBe(known !== undefined);
          model = model.filter((one) => one !== known);
        }
        expect(timed.size).toBe(model.length);
        expect(timed.first()?.atMs).toBe(model[0]?.atMs);
      }
      const drained: number[] = [];
      for (let next = timed.first(); next !== undefined; next = timed.first()) {
        drained.push(next.atMs);
        timed.delete(next.client);
      }
      expect(drained).toEqual(model.map(({ atMs }) => atMs));
    }),
    { numRuns: 300 },
  );
});
