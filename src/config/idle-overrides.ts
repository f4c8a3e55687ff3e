// Finds overrides that change nothing, because another policy holds the same requests to less. Says so only where it is
// certain: whatever one counter of the policy counts is also counted by one counter of the other, over at least as long.
import type { Policy } from "../core/policy.ts";
import { coversMethods, coversPath, regionOf } from "./match-regions.ts";
import { type RatedPolicy, rateInWords, requestsOf } from "./policy-rates.ts";

/** `policies`: those that are in force. */
export function idleOverrideWarnings(policies: readonly RatedPolicy[], routes: readonly string[]): string[] {
  return policies.flatMap((policy) => {
    const others = policies.filter((other) => other !== policy && countsAll(other, policy, routes));
    return policy.overrides.flatMap(({ limit }, i) => {
      // Between the two limits, the override is what makes the other policy decide.
      const least = requestsOf(policy, Math.min(limit, policy.limit));
      const lower = others.find((other) => other.mostRequests <= least);
      if (lower === undefined) return [];
      const reason = `policy ${lower.name} admits only ${rateInWords(lower)} of the same requests`;
      return [`policy ${policy.name}: overrides.${i} has no effect: ${reason}; remove the override, or that policy`];
    });
  });
}

function countsAll(outer: RatedPolicy, inner: RatedPolicy, routes: readonly string[]): boolean {
  const isPlain = outer.chargeStatuses === null && outer.exempt.length === 0 && outer.overrides.length === 0;
  const parts = new Set(inner.key.map((part) => JSON.stringify(part)));
  return (
    isPlain &&
    isAsLong(outer.rate, inner.rate) &&
    outer.key.every((part) => parts.has(JSON.stringify(part))) &&
    coversMethods(outer.match, inner.match) &&
    regionOf(inner.match, routes).every((path) => coversPath(outer.match.paths, path))
  );
}

function isAsLong(outer: Policy["rate"], inner: Policy["rate"]): boolean {
  if (outer.kind === "sliding" && inner.kind === "sliding") return outer.windowMs >= inner.windowMs;
  return JSON.stringify(outer) === JSON.stringify(inner);
}
