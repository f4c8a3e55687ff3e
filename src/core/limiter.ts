// Decides which requests are admitted. A local store answers at once, a shared one with a promise; what is only shown is
// known at once.
import type { Identity } from "./authentication.ts";
import type { CounterKey } from "./counter-key.ts";
import type { Awaitable, Decision, Outcome, Policy } from "./policy.ts";
import type { ParsedRequest, RequestHead } from "./request-head.ts";

export interface Limiter {
  /**
   * Asks the policies of a step, and charges all of them or none. Returns the decision on the whole request, so far; what the
   * steps before have charged stays charged.
   */
  ask(request: AskedRequest, step: LimitStep): Awaitable<Decision>;
  /** Whether policies are about requests without a verified token, so that `refused` must be asked. */
  readonly limitsOthers: boolean;
  /**
   * Returns a quota as it is now, as far as this process knows; charges nothing. A client has the quota that is shown on requests
   * that are not limited; a decision has that of its policies and keys. `isObserved`: counts such a request of the client.
   */
  show(of: LimitedClient | Decision, nowMs: number, isObserved?: boolean): Decision;
  /**
   * Returns what is left of each enforcing policy that can apply to requests of the caller, whatever their paths and methods are; charges
   * nothing. `routes`: for policies that count each route by itself.
   */
  quotasOf(caller: CountedRequest, routes: readonly string[], nowMs: number): readonly CallerQuota[];
}

/**
 * Which policies are asked. `anonymous`: those for which it does not matter whether the token is verified; once for each limited
 * request. `identified`: the others, once the token has passed. `refused`: those about requests without a verified token, for one that
 * is about to be refused for another reason than a limit. `usedUp`: the same, but charges nothing, knows what this process knows,
 * and is never waited for: the decision is that of the steps before, or the refusal.
 */
export type LimitStep = "anonymous" | "identified" | "refused" | "usedUp";

/** The parts of a request by which policies count it. */
export interface CountedRequest {
  readonly parsed: ParsedRequest;
  readonly head: RequestHead;
  /** Null if the token of the request was not verified, or not yet. */
  readonly identity: Identity | null;
}

export interface AskedRequest extends CountedRequest {
  /** The decision of the steps before; null if none was asked. */
  readonly decision: Decision | null;
  readonly nowMs: number;
}

/** Both members are of the same client. */
export interface LimitedClient {
  readonly client: string;
  readonly counterKey: CounterKey;
}

/** One counter of a policy, as its caller is told of it. */
export interface CallerQuota {
  readonly policy: Policy;
  /** `unknown`: the caller is not told, because the key does not say that it is its own, or because there are too many. */
  readonly state: "unknown" | "exempt" | "exhausted" | "open";
  readonly limit: number;
  /** Null if the state is `unknown` or `exempt`. */
  readonly used: number | null;
  readonly remaining: number | null;
  /** The monotonic instant at which more becomes available; null: nothing is used, or nobody knows. */
  readonly resetMs: number | null;
  /** The method and the route of the counter, if the policy counts each of them by itself; else null. */
  readonly method: string | null;
  readonly route: string | null;
}

/** Decides about questions of ingresses for a quota alone. */
export interface QuotaLimiter {
  /** The policies that can be asked. */
  readonly policyNames: readonly string[];
  /** Asks for all requests together, and charges all or none. Returns the decision on each, in their order. */
  askAll(requests: readonly QuotaRequest[], nowMs: number): Awaitable<readonly Decision[]>;
  /** The same as `Limiter.show`. */
  readonly show: Limiter["show"];
}

export interface QuotaRequest extends CountedRequest {
  /** Whether the token was verified here. */
  readonly isVerified: boolean;
  /** The name of the only policy that is asked; null: all that apply. */
  readonly policy: string | null;
  /** How many requests it counts as; from 1. */
  readonly hits: number;
}

export interface PolicyStats {
  readonly policy: Policy;
  /** How often the policy was asked, by what it said. */
  readonly outcomes: Readonly<Record<Outcome, number>>;
}

/** What is in the table of counters. */
export interface CounterFigures {
  /** Of what is in use, and of what new keys can take before others have to go. The rest is directory and reserve. */
  readonly usedBytes: number;
  readonly freeBytes: number;
  /** In the order of the policies. */
  readonly policies: readonly PolicyCounterFigures[];
}

export interface PolicyCounterFigures {
  readonly policy: string;
  /** Keys that are stored. */
  readonly keys: number;
  /** Clients and networks that are counted as one, because there was no room for keys of their own. */
  readonly coarse: number;
  /** Admissions whose instant was rounded up to a later one of their key, because no memory was free. */
  readonly merged: number;
  /** Keys whose requests were forgotten because somebody has forgiven them. */
  readonly forgiven: number;
  /** Keys that were evicted because their requests no longer counted. */
  readonly evictedExpired: number;
  /** Keys that were evicted although some of their requests still counted, because the table was full. */
  readonly evictedLive: number;
}

/**
 * The budget of each client for refusals that spend no quota: no route, an ambiguous path outside of all routes, bytes
 * that are not HTTP. Without it, a client could cause any number of them.
 */
export interface RefusalBudget {
  /** Returns whether the budget of the client is used up. Takes nothing from it. */
  isSpent(client: string, nowMs: number): boolean;
  /** Takes a refusal from the budget. */
  spend(client: string, nowMs: number): void;
}
