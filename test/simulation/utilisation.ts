// Whether as much was admitted as the limit allows: compares a run without failures with a window that one gateway counts
// exactly, fed with the same requests.
import { leasedAheadFrom } from "../../src/core/store-link.ts";
import { spendMsOf, windowMsOf } from "./plan.ts";
import type { World } from "./world.ts";

/** Of the ideal. */
const least = 0.98;

export function checkUtilisation(world: World): void {
  const { plan, judge, arrivals } = world;
  const [policy] = plan.policies;
  if (policy === undefined || plan.policies.length > 1 || plan.failures.length > 0) return;
  if (policy.rate.kind !== "sliding" || policy.chargeStatuses !== null) return;
  const windowMs = windowMsOf(policy);
  // A unit that is asked for alone counts for the time of its lease longer, one that is leased ahead too at most.
  const longerMs = spendMsOf(policy, plan.settings);
  const slowMs = 2 * plan.delays.mostMs + 2;
  // By the slowest of the clocks: the store counts by its own, and each gateway what it has admitted itself.
  const slowest = Math.min(...[...plan.gateways, ...plan.shards].map(({ rate }) => rate));
  const countsMs = (windowMs + longerMs) / slowest + slowMs;
  // What is leased ahead is given back after its lease, with a call of its own.
  const leasedMs = policy.limit >= leasedAheadFrom ? 2 * longerMs + slowMs : 0;
  for (const [address, { ideal, admitted }] of arrivals.compare(policy, countsMs, leasedMs)) {
    if (admitted < Math.floor(ideal * least) - 1) {
      judge.violate(`${address}: ${admitted} of ${ideal} were admitted`);
    }
  }
}
