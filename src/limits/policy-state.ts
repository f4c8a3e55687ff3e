// One policy at work: what it counts with, and what it has said about the request that is decided now. The answer is
// kept here until the next request, so that asking several policies makes no object.
import type { Identity } from "../core/authenticator.ts";
import { CounterKey } from "../core/counter-key.ts";
import type { Decision, Held, Outcome, Policy } from "../core/policy.ts";
import type { ParsedRequest, RequestHead } from "../core/request-head.ts";
import type { Counters } from "./counters.ts";
import { Hold } from "./hold.ts";
import { chargedAt, type LockedTable } from "./locked-table.ts";
import type { KeyLimits, KeyReader } from "./request-keys.ts";
import type { AskingPass } from "./store/calls.ts";
import type { SharedCounters } from "./store/store-counters.ts";

/** The key of a request, and its limit. */
interface Selection {
  readonly key: CounterKey;
  readonly client: CounterKey;
  readonly limit: number;
  /** When it was asked for first, if gateways share the counters. */
  readonly sinceMs: number;
}

export type OutcomeCounts = Record<Outcome, number>;

interface PolicyParts {
  readonly policy: Policy;
  readonly isShadow: boolean;
  readonly counters: Counters;
  /** The same counters, if gateways share them; else null. */
  readonly shared: SharedCounters | null;
  readonly outcomes: OutcomeCounts;
  readonly readKey: KeyReader;
  /** Null: one limit for all keys. */
  readonly readLimit: KeyLimits | null;
}

/** The key of a decision that shows a quota for which nothing was looked up. Nothing is ever stored under it. */
const noKey = new CounterKey(-1, -1, -1, -1, false);

export class PolicyState {
  readonly policy: Policy;
  readonly isShadow: boolean;
  readonly counters: Counters;
  /** The same counters, if gateways share them; else null. */
  readonly shared: SharedCounters | null;
  readonly outcomes: OutcomeCounts;
  /** Whether something depends on the end of the exchange. */
  readonly holds: boolean;
  /** Null: one limit for all keys. */
  readonly readLimit: KeyLimits | null;
  readonly readKey: KeyReader;
  /** Whether the policy has been asked in this step: it applies, and the client is not exempt. */
  isAsked = false;
  /** Whether the request fits. */
  fits = false;
  #key = noKey;
  #client = noKey;
  #limit = 0;

  constructor({ policy, isShadow, counters, shared, outcomes, readKey, readLimit }: PolicyParts) {
    this.policy = policy;
    this.isShadow = isShadow;
    this.counters = counters;
    this.shared = shared;
    this.outcomes = outcomes;
    this.holds = holdsUntilEnd(policy);
    this.readLimit = readLimit;
    this.readKey = readKey;
  }

  /** What is left after the request that was asked about. */
  get remaining(): number {
    return this.counters.remaining;
  }

  get resetMs(): number {
    return this.counters.resetMs;
  }

  /** Whether the shared store has to be asked before it is known if the request fits. */
  get isUnknown(): boolean {
    return this.shared !== null && this.shared.verdict === "unknown";
  }

  /** Whether the shared store is not there, and nothing is admitted without it. */
  get isUnavailable(): boolean {
    return this.shared !== null && this.shared.verdict === "unavailable";
  }

  /** Selects the key of a request, unless its client is exempt. */
  select(request: ParsedRequest, head: RequestHead, identity: Identity | null): void {
    const { policy, readLimit } = this;
    const limit = readLimit === null ? policy.limit : readLimit(request, head, identity);
    this.isAsked = limit > 0;
    if (!this.isAsked) {
      this.outcomes.exempt += 1;
      return;
    }
    if (this.shared !== null) this.shared.pass = "first";
    this.#limit = limit;
    this.#key = this.readKey(request, head, identity);
    this.#client = request.counterKey;
    this.counters.select(this.#key, this.#client);
  }

  /** What was selected, for `selectAgain`. */
  selection(): Selection {
    return { key: this.#key, client: this.#client, limit: this.#limit, sinceMs: this.shared?.sinceMs ?? 0 };
  }

  /** Selects what was selected before for a request that is decided again. Null: the policy is not asked. */
  selectAgain(selection: Selection | null, pass: AskingPass): void {
    this.isAsked = selection !== null;
    if (selection === null) return;
    if (this.shared !== null) {
      // No request asks a second time for a policy that refuses nothing.
      this.shared.pass = this.isShadow && pass === "answered" ? "final" : pass;
      this.shared.sinceMs = selection.sinceMs;
    }
    this.#key = selection.key;
    this.#client = selection.client;
    this.#limit = selection.limit;
    this.counters.select(this.#key, this.#client);
  }

  /** Asks for the request that was selected. Charges nothing. The table's locks must be held. */
  ask(nowMs: number): void {
    this.fits = this.counters.ask(this.#limit, this.policy.cost, nowMs);
  }

  /** Charges the request that was asked about and fits. Returns what is held for it, `held` included. */
  charge(held: Held | null): Held | null {
    this.outcomes.admitted += 1;
    const charged = this.counters.charge();
    if (!this.holds) return held;
    const { counters, policy } = this;
    const [key, client, limit] = [this.#key, this.#client, this.#limit];
    const keptStatuses = policy.rate.kind === "concurrency" ? null : policy.chargeStatuses;
    return new Hold({ counters, key, client, limit, units: policy.cost, charged, keptStatuses }, held);
  }

  /** Asks and charges at once, for a policy that is alone, has one limit, is keyed by client and holds nothing. */
  take(client: CounterKey, table: LockedTable, nowMs: number): Decision {
    const { policy, counters } = this;
    const { locks } = table;
    const { limit } = policy;
    let isAdmitted = false;
    counters.select(client, client);
    locks.acquire();
    try {
      isAdmitted = counters.ask(limit, policy.cost, chargedAt(table, nowMs));
      if (isAdmitted) counters.charge();
    } finally {
      locks.release();
    }
    // An access by a computed name takes several times longer.
    if (isAdmitted) this.outcomes.admitted += 1;
    else this.outcomes.throttled += 1;
    const outcome = isAdmitted ? "admitted" : "throttled";
    const { remaining, resetMs } = counters;
    return { outcome, policy, key: client, client, limit, remaining, resetMs, held: null, others: null };
  }

  /** The decision on the request that was asked about. */
  decision(
    outcome: "admitted" | "throttled" | "unavailable",
    held: Held | null,
    others: readonly Decision[] | null,
  ): Decision {
    const { policy } = this;
    const { remaining, resetMs } = this.counters;
    const [key, client, limit] = [this.#key, this.#client, this.#limit];
    return { outcome, policy, key, client, limit, remaining, resetMs, held, others };
  }

  /** The same for the list of all policies. `isCharged`: false if another policy has refused the request. */
  listed(isCharged: boolean): Decision {
    if (!this.fits) return this.decision("throttled", null, null);
    const admitted = this.decision("admitted", null, null);
    if (isCharged) return admitted;
    return { ...admitted, outcome: "observed", remaining: admitted.remaining + this.policy.cost };
  }

  /** The quota of a key as it is now. */
  peek(key: CounterKey, client: CounterKey, limit: number, nowMs: number): Decision {
    const { policy, counters } = this;
    counters.peek(key, client, limit, nowMs, policy.cost);
    const { remaining, resetMs } = counters;
    return { outcome: "observed", policy, key, client, limit, remaining, resetMs, held: null, others: null };
  }

  /** The quota of a client about whom nothing is stored, where the policy is shown and has not been asked. */
  unspent(outcome: "exempt" | "observed", nowMs: number, held: Held | null): Decision {
    const { policy } = this;
    const { limit } = policy;
    const resetMs = this.counters.unspentResetMs(nowMs);
    return { outcome, policy, key: noKey, client: noKey, limit, remaining: limit, resetMs, held, others: null };
  }
}

/** Returns whether the end of an exchange matters to a policy. */
export function holdsUntilEnd({ rate, chargeStatuses }: Policy): boolean {
  return rate.kind === "concurrency" || chargeStatuses !== null;
}
