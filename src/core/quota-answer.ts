// The answer to a caller that asks what it has left, as JSON. docs/policies.md describes its members.
import type { CallerQuota } from "./limiter.ts";
import { jsonReply, type LocalReply } from "./local-reply.ts";
import type { KeyPart, Rate } from "./policy.ts";

/** `isVerified`: whether the token of the caller was verified. `isShared`: whether other gateways share the counters. */
export function quotaReply(
  quotas: readonly CallerQuota[],
  { isVerified, isShared }: { readonly isVerified: boolean; readonly isShared: boolean },
  nowMs: number,
): LocalReply {
  return jsonReply({ isVerified, isShared, policies: quotas.map((quota) => policyAnswer(quota, nowMs)) });
}

function policyAnswer({ policy, state, method, route }: CallerQuota, nowMs: number): object {
  const { name, rate, key, match, cost } = policy;
  const isCounted = state !== null && !state.isExempt;
  return {
    name,
    state: stateWord(state, cost),
    limit: state?.limit ?? policy.limit,
    used: isCounted ? state.used : null,
    remaining: isCounted ? state.remaining : null,
    // Nobody knows when a slot is free again.
    resetSeconds:
      isCounted && state.used > 0 && rate.kind !== "concurrency"
        ? Math.max(0, Math.ceil((state.resetMs - nowMs) / 1000))
        : null,
    cost,
    rate: rateAnswer(rate),
    key: key.map(keyText),
    match: { paths: match.paths, methods: match.methods },
    method,
    route,
  };
}

function stateWord(state: CallerQuota["state"], cost: number): "unknown" | "exempt" | "exhausted" | "open" {
  if (state === null) return "unknown";
  if (state.isExempt) return "exempt";
  return state.remaining < cost ? "exhausted" : "open";
}

function rateAnswer(rate: Rate): object {
  switch (rate.kind) {
    case "sliding":
      return { kind: "sliding", windowSeconds: rate.windowMs / 1000 };
    case "calendar":
      return { kind: "calendar", per: rate.per, timezone: rate.timezone };
    case "concurrency":
      return { kind: "concurrency" };
  }
}

/** As in the configuration. */
function keyText(part: KeyPart): string {
  return part.kind === "header" || part.kind === "claim" ? `${part.kind}:${part.name}` : part.kind;
}
