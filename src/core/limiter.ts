// Decides which requests are admitted. A local store answers at once, a shared one with a promise; what is only shown is
// known at once.
import type { Identity } from "./authentication.ts";
import type { CounterKey } from "./counter-key.ts";
import type { Awaitable, Decision, Outcome, Policy } from "./policy.ts";
import type { ParsedRequest, RequestHead } from "./request-head.ts";

export interface Limiter {
  /**
   * Asks the policies for which it does not matter whether the token is verified, and charges all of them or none. Called once for each limited
   * request.
   */
  decide(request: ParsedRequest, head: RequestHead, nowMs: number): Awaitable<Decision>;
  /** Whether policies are about requests without a verified token, so that `decideRefused` must be called. */
  readonly limitsOthers: boolean;
  /**
   * Asks the other policies, once the token has passed. `identity`: null if it was not verified. Returns the decision on the whole request. What `first`
   * has charged stays charged.
   */
  decideIdentified(
    request: ParsedRequest,
    head: RequestHead,
    identity: Identity | null,
    first: Decision,
    nowMs: number,
  ): Awaitable<Decision>;
  /**
   * Asks the policies about requests without a verified token, for one that is about to be refused for another reason than
   * a limit. Returns the decision on the whole request. What `first` has charged stays charged.
   */
  decideRefused(request: ParsedRequest, head: RequestHead, first: Decision, nowMs: number): Awaitable<Decision>;
  /**
   * Returns the refusal that `decideRefused` would give, as far as this process knows; null if there is none. Charges
   * nothing, and waits for nothing.
   */
  findUsedUp(request: ParsedRequest, head: RequestHead, nowMs: number): Decision | null;
  /**
   * Returns the quota that is shown to a client whose request is not limited; charges nothing. `client` and `key` are of
   * the same client.
   */
  peek(client: string, key: CounterKey, nowMs: number): Decision;
  /** The same; counts the request as observed. */
  observe(client: string, key: CounterKey, nowMs: number): Decision;
  /** Returns the quota of the decision's policy and key as it is now; charges nothing. */
  refresh(decision: Decision, nowMs: number): Decision;
  /**
   * Returns what is left of each enforcing policy that can apply to requests of the caller, whatever their paths and methods are; charges
   * nothing. `identity`: null if there is no verified token. `routes`: for policies that count each route by itself.
   */
  quotasOf(
    request: ParsedRequest,
    head: RequestHead,
    identity: Identity | null,
    routes: readonly string[],
    nowMs: number,
  ): readonly CallerQuota[];
  /** In the order of the policies. */
  stats(): readonly PolicyStats[];
}

/** One counter of a policy, as its caller is told of it. */
export interface CallerQuota {
  readonly policy: Policy;
  /** Null: it is not told, because the key does not say that it is the caller's own, or because there are too many. */
  readonly state: CallerQuotaState | null;
  /** Of a policy that counts each of them by itself; else null. */
  readonly method: string | null;
  readonly route: string | null;
}

export interface CallerQuotaState {
  readonly isExempt: boolean;
  readonly limit: number;
  readonly used: number;
  readonly remaining: number;
  /** The monotonic instant at which more becomes available; null: nobody knows. */
  readonly resetMs: number | null;
}

/** Decides about questions of ingresses for a quota alone. */
export interface QuotaLimiter {
  /** The policies that can be asked. */
  readonly policyNames: readonly string[];
  /** Asks for all requests together, and charges all or none. Returns the decision on each, in their order. */
  decideAll(requests: readonly QuotaRequest[], nowMs: number): readonly Decision[] | Promise<readonly Decision[]>;
  /** Returns the quota of the request's client, as it is shown on one that is not limited. Counts it as observed. */
  observe(request: ParsedRequest, nowMs: number): Decision;
}

export interface QuotaRequest {
  readonly request: ParsedRequest;
  readonly head: RequestHead;
  readonly identity: Identity | null;
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
