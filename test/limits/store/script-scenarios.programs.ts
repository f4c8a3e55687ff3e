// What the script does, as tables on one timeline: each is a specification to read from top to bottom. Run on a real server
// whose script reads the time of the table, and on the model.
import { describe, expect, test } from "vitest";
import { type LeaseReport, leaseIdOf } from "../../../src/limits/store/script-call.ts";
import { redisNeeded, skipRedis } from "../../support/redis-servers.ts";
import { counterOf, type GivenItem, itemOf, type ScriptAndModel, startUs, useScriptAndModel } from "./real-script.ts";

/** When, what is asked, and the answer: granted units, units left, when something is free, when a step is. */
type Row = [ms: number, asked: GivenItem, granted: number, free: number, resetMs: number, fitsMs: number];

const startMs = startUs / 1000;
/** A lease's id begins with that of its gateway. */
const [a, b] = ["gateway-aaaa", "gateway-bbbb"];
const lease = (gateway: string, number: number): string => `${gateway}thread-aaa${number}`;
const reported = (id: string, granted: number, spent: number, ageMs = 0): LeaseReport[] => [
  { id, granted, spent, ageUs: ageMs * 1000 },
];
const told = (units: number, ageMs: number) => ({ units, ageUs: ageMs * 1000 });

/** Nothing is asked for: the row shows what is there. */
const look = { asked: 0 };
const slow = { leaseUs: 200_000 };
const ahead = { limit: 1_000, leaseUs: 200_000 };
const slot = { item: "concurrency", limit: 2, leaseUs: 100_000, windowUs: 0 } as const;
const day = {
  item: "calendar",
  limit: 10,
  windowUs: 0,
  leaseUs: 100_000,
  untilUs: (startMs + 5_000) * 1000,
  keepUs: 1_000_000,
} as const;

/** Unless a row says otherwise: 3 requests within 1 s, leased for 15 ms. */
const scenarios: Record<string, Row[]> = {
  "a request holds its unit for the lease and the window, and no longer": [
    [0, {}, 1, 2, 1015, 0],
    [100, {}, 1, 1, 915, 0],
    [200, {}, 1, 0, 815, 815],
    [300, {}, 0, 0, 715, 715],
    [1014, {}, 0, 0, 1, 1],
    [1015, {}, 1, 0, 100, 100],
    [9000, look, 0, 3, -1, 0],
  ],
  "several requests of a turn ask together, and get what there is": [
    [0, { asked: 2 }, 2, 1, 1015, 0],
    [1, { asked: 2 }, 1, 0, 1014, 1014],
    [2, { asked: 2 }, 0, 0, 1013, 1013],
    [1015, look, 0, 2, 1, 0],
  ],
  "a cost is granted in whole steps, or not at all": [
    [0, { limit: 20, step: 7, asked: 1 }, 7, 13, 1015, 0],
    [10, { limit: 20, step: 7, asked: 2 }, 7, 6, 1005, 1005],
    [20, { limit: 20, step: 7, asked: 1 }, 0, 6, 995, 995],
    [20, { limit: 20, step: 21, asked: 1 }, 0, 6, 995, -1],
    [30, { limit: 20, step: 5, asked: 1 }, 5, 1, 985, 985],
    [40, { limit: 20, step: 14, asked: 1 }, 0, 1, 975, 985],
  ],
  "what is wanted beyond need is at most a quarter of what is free": [
    [0, { ...ahead, asked: 1, ahead: 799 }, 250, 750, 1200, 0],
    [1, { ...ahead, asked: 1, ahead: 9 }, 10, 740, 1199, 0],
    [2, { ...ahead, asked: 0, ahead: 500 }, 185, 555, 1198, 0],
    [3, { ...ahead, asked: 300, ahead: 100 }, 300, 255, 1197, 0],
    [4, { ...ahead, asked: 253, ahead: 0 }, 253, 2, 1196, 0],
    [5, { ...ahead, asked: 1, ahead: 99 }, 1, 1, 1195, 0],
    [6, { ...ahead, asked: 0, ahead: 100 }, 0, 1, 1194, 0],
  ],
  "a report says when units were spent, and gives back the others": [
    [0, { ...slow, asked: 3, id: lease(a, 1) }, 3, 0, 1200, 1200],
    [150, { ...look, reports: reported(lease(a, 1), 3, 2, 100) }, 0, 1, 900, 0],
    [1049, look, 0, 1, 1, 0],
    [1050, look, 0, 3, -1, 0],
  ],
  "a report may be repeated, late, and in any order": [
    [0, { ...slow, asked: 2, id: lease(a, 1) }, 2, 1, 1200, 0],
    [0, { ...slow, asked: 1, id: lease(b, 1) }, 1, 0, 1200, 1200],
    [50, { ...look, reports: reported(lease(a, 1), 2, 1, 20) }, 0, 1, 980, 0],
    [50, { ...look, reports: reported(lease(a, 1), 2, 1, 20) }, 0, 1, 980, 0],
    // Later, it says the same of an instant that is farther away: nothing is counted for longer.
    [90, { ...look, reports: reported(lease(a, 1), 2, 1, 20) }, 0, 1, 940, 0],
    // The clock drifts: the instant may only come nearer.
    [90, { ...look, reports: reported(lease(a, 1), 2, 1, 90) }, 0, 1, 910, 0],
    [1001, { ...look, reports: reported(lease(b, 1), 1, 1, 900) }, 0, 2, 100, 0],
    [1050, { ...look, reports: reported(lease(b, 1), 1, 1, 1_000) }, 0, 3, -1, 0],
    [1060, { ...look, reports: reported(lease(b, 1), 1, 0) }, 0, 3, -1, 0],
  ],
  "a report of units that were never granted changes nothing": [
    [0, { id: lease(a, 1) }, 1, 2, 1015, 0],
    [1, { ...look, reports: reported(lease(b, 9), 5, 0) }, 0, 2, 1014, 0],
    [2, { ...look, reports: reported(lease(a, 1), 2, 0) }, 0, 2, 1013, 0],
    [3, { ...look, reports: reported(lease(a, 1), 1, 9, 3) }, 0, 2, 997, 0],
    // An age below zero is none.
    [4, { ...look, reports: reported(lease(a, 1), 1, 1, -500) }, 0, 2, 996, 0],
  ],
  "what a gateway has admitted without the store is counted once": [
    [0, { id: lease(a, 1) }, 1, 2, 1015, 0],
    [10, { ...look, id: lease(b, 1), told: told(1, 5) }, 0, 1, 995, 0],
    [20, { ...look, id: lease(a, 2), told: told(1, 5) }, 0, 1, 985, 0],
    [30, { ...look, id: lease(a, 3), told: told(3, 5) }, 0, 0, 975, 985],
    [40, { ...look, id: lease(a, 4), told: told(3, 15) }, 0, 0, 965, 975],
    [40, { ...look, id: lease(b, 3), told: told(5, 2_000) }, 0, 0, 965, 975],
    [1015, look, 0, 1, 10, 0],
    [1025, look, 0, 3, -1, 0],
  ],
  "a limit that is lowered lets nothing more in until it fits": [
    [0, { asked: 3 }, 3, 0, 1015, 1015],
    [100, { limit: 4 }, 1, 0, 915, 915],
    [200, { limit: 2 }, 0, 0, 815, 815],
    [1015, { limit: 2 }, 1, 0, 100, 100],
    [1015, { limit: 0 }, 0, 0, 100, -1],
    [1015, { limit: 1_000_000_000, asked: 1_000_000 }, 1_000_000, 998_999_998, 100, 0],
  ],
  "a slot is held until it is given back, or nobody renews it": [
    [0, { ...slot, id: lease(a, 1) }, 1, 1, 100, 0],
    [10, { ...slot, id: lease(b, 1) }, 1, 0, 90, 90],
    [20, slot, 0, 0, 80, 80],
    [60, { ...slot, ...look, reports: reported(lease(a, 1), 1, 1) }, 0, 0, 50, 50],
    [110, { ...slot, ...look }, 0, 1, 50, 0],
    [120, { ...slot, id: lease(b, 2) }, 1, 0, 40, 40],
    // The request of the first gateway still runs, though its slot had been given to another: both count.
    [165, { ...slot, id: lease(b, 3) }, 1, 0, 55, 55],
    [170, { ...slot, ...look, reports: reported(lease(a, 1), 1, 1) }, 0, 0, 50, 95],
    [180, { ...slot, ...look, reports: reported(lease(b, 2), 1, 0) }, 0, 0, 85, 85],
    [180, { ...slot, ...look, reports: reported(lease(a, 1), 1, 0) }, 0, 1, 85, 0],
    [180, { ...slot, ...look, reports: reported(lease(a, 1), 1, 0) }, 0, 1, 85, 0],
  ],
  "slots of one call are given back one after the other": [
    [0, { ...slot, asked: 3, id: lease(a, 1) }, 2, 0, 100, 100],
    [10, { ...slot, ...look, reports: reported(leaseIdOf(lease(a, 1), 1), 1, 0) }, 0, 1, 90, 0],
    [20, { ...slot, ...look, reports: reported(leaseIdOf(lease(a, 1), 1), 1, 0) }, 0, 1, 80, 0],
    [30, { ...slot, ...look, reports: reported(lease(a, 1), 1, 0) }, 0, 2, -1, 0],
  ],
  "slots of one lease, of a request that costs more, are given back one after the other": [
    [0, { ...slot, step: 2, id: lease(a, 1) }, 2, 0, 100, 100],
    [10, { ...slot, ...look, reports: reported(lease(a, 1), 2, 1) }, 0, 1, 100, 0],
    [20, { ...slot, ...look, reports: reported(lease(a, 1), 2, 1) }, 0, 1, 100, 0],
    [30, { ...slot, ...look, reports: reported(lease(a, 1), 1, 0) }, 0, 2, -1, 0],
  ],
  "a quota of a period counts until its end": [
    [0, { ...day, asked: 4, id: lease(a, 1) }, 4, 6, 5000, 0],
    [10, { ...day, asked: 6, id: lease(b, 1) }, 6, 0, 4990, 4990],
    [50, { ...day, ...look, reports: reported(lease(a, 1), 4, 1) }, 0, 3, 4950, 0],
    [60, { ...day, ...look, reports: reported(lease(a, 1), 4, 1) }, 0, 3, 4940, 0],
    // The other lease has expired: all of it was spent.
    [110, { ...day, ...look, reports: reported(lease(b, 1), 6, 0) }, 0, 3, 4890, 0],
    [120, { ...day, step: 11, asked: 1 }, 0, 3, 4880, -1],
    [120, { ...day, asked: 5, id: lease(a, 2) }, 3, 0, 4880, 4880],
    // One has spent 6 and now 2 more; the other 1, and 3 are leased.
    [130, { ...day, ...look, id: lease(b, 3), told: told(8, 0) }, 0, 0, 4870, 4870],
    [140, { ...day, ...look, id: lease(a, 3), told: told(4, 0) }, 0, 0, 4860, 4860],
    [150, { ...day, ...look, limit: 13 }, 0, 1, 4850, 0],
    [4999.999, { ...day, ...look }, 0, 0, 0.001, 0.001],
  ],
  "a clock that goes back does not count again what has gone": [
    [0, {}, 1, 2, 1015, 0],
    [500, {}, 1, 1, 515, 0],
    [-2000, {}, 1, 0, 3015, 3015],
    [-1999, {}, 0, 0, 3014, 3014],
    [1015, {}, 1, 0, 500, 500],
    [5000, { asked: 3 }, 3, 0, 1015, 1015],
    [5100, {}, 0, 0, 915, 915],
    // A blip forward drops what counted, and the clock of the counter stays there; what is said of time does not.
    [7000, {}, 1, 2, 1015, 0],
    [5200, { asked: 2 }, 2, 0, 2815, 2815],
    [6200, {}, 0, 0, 1815, 1815],
    [8015, look, 0, 3, -1, 0],
  ],
};

describe.skipIf(skipRedis)(`the script, as its model${redisNeeded}`, () => {
  let both: ScriptAndModel;

  useScriptAndModel((emptied) => {
    both = emptied;
  });

  test.each(Object.entries(scenarios))("%s", async (_, rows) => {
    const inMs = (us: number): number => (us < 0 ? us : us / 1000);
    const answered: unknown[] = [];
    for (const [ms, asked] of rows) {
      both.timeUs = Math.round((startMs + ms) * 1000);
      const answer = await both.call([itemOf({ windowUs: 1_000_000, ...asked })]);
      const { granted, free, resetUs, fitsUs } = counterOf(answer);
      answered.push([ms, asked, granted, free, inMs(resetUs), inMs(fitsUs)]);
    }
    expect(answered).toEqual(rows);
  });
});
