// The policies of a run.
import type { Policy } from "../../src/core/policy.ts";
import { slidingPolicy } from "../support/policy.ts";
import type { Chance } from "./chance.ts";

export function drawPolicies(chance: Chance): readonly Policy[] {
  const count = chance.one([1, 1, 1, 1, 2, 2, 3]);
  return Array.from({ length: count }, (_, i) => drawPolicy(chance, i));
}

function drawPolicy(chance: Chance, index: number): Policy {
  const windowMs = chance.one([1000, 2000, 2000, 4000, 10_000, Math.round(chance.skewed(1000, 60_000))]);
  const mode = index > 0 && chance.happens(0.2) ? "shadow" : "enforce";
  const key = index > 0 && chance.happens(0.15) ? [] : ([{ kind: "client" }] as const);
  const base = { ...slidingPolicy({ name: `p${index}`, limit: 1, windowMs }), mode, key } as const;
  const cost = chance.one([1, 1, 1, 2, 5]);
  switch (chance.one(["small", "small", "middle", "large", "large", "calendar", "concurrency", "status"])) {
    case "small":
      return { ...base, limit: cost * Math.round(chance.skewed(1, 30)), cost };
    case "middle":
      return { ...base, limit: chance.whole(100, 200), cost: chance.one([1, 2, 3]) };
    case "large": {
      // A high cost, so that a large limit is reached by few requests.
      const limit = Math.round(chance.skewed(1000, 12_000));
      return { ...base, limit, cost: Math.ceil(limit / chance.whole(30, 300)) };
    }
    case "calendar": {
      const limit = chance.one([10, 100, 1000]);
      const rate = { kind: "calendar", per: "minute", timezone: "UTC" } as const;
      return { ...base, rate, limit, cost: Math.ceil(limit / chance.whole(10, 100)) };
    }
    case "concurrency":
      return { ...base, rate: { kind: "concurrency" }, limit: chance.whole(1, 10), cost: 1 };
    default:
      return { ...base, limit: chance.whole(2, 20), chargeStatuses: [401] };
  }
}
