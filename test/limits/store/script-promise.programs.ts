// What the store says of time is a promise, which clients get as Retry-After: whoever comes then is admitted, if nobody else
// was in the meantime. Reports may come in the meantime: they never make it later.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { CounterItem, ScriptAnswer } from "../../../src/limits/store/script-call.ts";
import { ScriptModel } from "../../simulation/script-model.ts";
import { runs } from "../../support/runs.ts";
import { counterOf, itemOf, leaseId } from "./real-script.ts";

const second = 1_000_000;
const policies = fc.record({
  limit: fc.constantFrom(3, 20, 1_000, 1_200),
  windowUs: fc.constantFrom(second, 60 * second, 3_600 * second + 7),
  leaseUs: fc.constantFrom(15_000, second),
});
/** Shares of a window, of what is free, of a lease. */
const grants = fc.array(
  fc.record({ gap: fc.nat({ max: 40 }), share: fc.nat({ max: 100 }), spent: fc.nat({ max: 100 }) }),
  {
    minLength: 1,
    maxLength: 30,
  },
);

test("what does not fit now does when it was said to", () => {
  fc.assert(
    fc.property(policies, grants, fc.nat({ max: 100 }), (policy, drawn, late) => {
      let timeUs = 1_800_000_000_000_000;
      const model = new ScriptModel(() => timeUs);
      const ask = (given: Partial<CounterItem>): ScriptAnswer => model.call([itemOf({ ...policy, ...given })]);
      const leases = drawn.map(({ gap, share, spent }) => {
        timeUs += Math.floor((policy.windowUs * gap) / 1_000);
        const id = leaseId("gateway-aaaa");
        const asked = Math.ceil((policy.limit * share) / 400);
        const { granted } = counterOf(ask({ id, asked }));
        return { id, granted, spent: Math.floor((granted * spent) / 100), atUs: timeUs };
      });
      const step = policy.limit - 1;
      const before = counterOf(ask({ step, asked: 1 }));
      if (before.granted > 0) return;
      expect(before.fitsUs).toBeGreaterThan(0);
      const endUs = timeUs + before.fitsUs;
      timeUs += Math.floor((before.fitsUs * late) / 200);
      // Clocks may differ in speed, so that an age is too small.
      const reports = leases.map(({ id, granted, spent, atUs }) => ({
        id,
        granted,
        spent,
        ageUs: (timeUs - atUs) / 2,
      }));
      ask({ asked: 0, reports });
      timeUs = endUs;
      expect(counterOf(ask({ step, asked: 1 })).granted).toBe(step);
    }),
    runs(2_000),
  );
});
