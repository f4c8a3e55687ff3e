// The exact sliding window of one client: a ring of the instants of its last admissions. Admits at most `limit`
// requests in any trailing window; a throttled request is not charged. Half open: an admission counts while it is
// younger than the window, and has expired at the age of exactly the window.
import type { Outcome } from "./policy.ts";

export interface WindowPolicy {
  readonly name: string;
  readonly limit: number;
  readonly windowMs: number;
  readonly maxClients: number;
}

export interface WindowDecision {
  readonly outcome: Outcome;
  readonly policy: WindowPolicy;
  readonly remaining: number;
  readonly resetMs: number;
}

/**
 * Larger rings are typed arrays: these are made and copied several times faster, but take more memory if they are
 * small.
 */
const maxPlainLength = 4096;

export class SlidingWindow {
  readonly policy: WindowPolicy;
  // Most clients send few requests, so the ring starts with one place and doubles up to the limit.
  #admittedAtMs: number[] | Float64Array = [];
  #oldest = 0;
  #counted = 0;

  constructor(policy: WindowPolicy) {
    this.policy = policy;
  }

  /** Charges one request, or throttles it and charges nothing. `nowMs` must not go back. */
  take(nowMs: number): WindowDecision {
    this.#forgetUntil(nowMs);
    if (this.#counted >= this.policy.limit) return this.#decide("throttled", nowMs);
    this.#record(nowMs);
    return this.#decide("admitted", nowMs);
  }

  /** Returns the quota without charging. */
  peek(nowMs: number): WindowDecision {
    this.#forgetUntil(nowMs);
    return this.#decide("observed", nowMs);
  }

  /** Returns the instant at which no admission counts any more: then the window can be forgotten. */
  expiresAtMs(): number {
    const { length } = this.#admittedAtMs;
    if (length === 0) return Number.NEGATIVE_INFINITY;
    // The newest admission keeps its place when it expires, so `peek` does not change this.
    return this.#at((this.#oldest + this.#counted - 1 + length) % length) + this.policy.windowMs;
  }

  /** Returns the instant at which a request is admitted again; undefined while one would be admitted. */
  exhaustedUntilMs(): number | undefined {
    return this.#counted >= this.policy.limit ? this.#resetMs() : undefined;
  }

  #forgetUntil(nowMs: number): void {
    if (this.#counted === 0 || !this.#isExpired(0, nowMs)) return;
    // Searches, because a million admissions may expire at once. The steps grow, because usually only one expires.
    let expired = 0;
    let kept = 1;
    while (kept < this.#counted && this.#isExpired(kept, nowMs)) {
      expired = kept;
      kept *= 2;
    }
    kept = Math.min(kept, this.#counted);
    while (expired + 1 < kept) {
      const middle = (expired + kept) >>> 1;
      if (this.#isExpired(middle, nowMs)) expired = middle;
      else kept = middle;
    }
    this.#oldest = (this.#oldest + kept) % this.#admittedAtMs.length;
    this.#counted -= kept;
  }

  /** `index`: 0 for the oldest admission that counts. The same sum as in #resetMs, which clients are told. */
  #isExpired(index: number, nowMs: number): boolean {
    return this.#at((this.#oldest + index) % this.#admittedAtMs.length) + this.policy.windowMs <= nowMs;
  }

  #record(nowMs: number): void {
    if (this.#counted === this.#admittedAtMs.length) this.#grow();
    this.#admittedAtMs[(this.#oldest + this.#counted) % this.#admittedAtMs.length] = nowMs;
    this.#counted += 1;
  }

  #grow(): void {
    const { length } = this.#admittedAtMs;
    const size = Math.min(this.policy.limit, Math.max(1, length * 2));
    const grown = size > maxPlainLength ? new Float64Array(size) : new Array<number>(size).fill(0);
    for (let i = 0; i < this.#counted; i += 1) grown[i] = this.#at((this.#oldest + i) % length);
    this.#admittedAtMs = grown;
    this.#oldest = 0;
  }

  #resetMs(): number {
    return this.#at(this.#oldest) + this.policy.windowMs;
  }

  #at(index: number): number {
    // Indices are taken modulo the length, so there is always a value. NaN would admit nothing and reveal the bug.
    return this.#admittedAtMs[index] ?? Number.NaN;
  }

  #decide(outcome: Outcome, nowMs: number): WindowDecision {
    return {
      outcome,
      policy: this.policy,
      remaining: this.policy.limit - this.#counted,
      resetMs: this.#counted > 0 ? this.#resetMs() : nowMs + this.policy.windowMs,
    };
  }
}

/** Returns the quota of a client that is not in the store. */
export function fullQuota(policy: WindowPolicy, nowMs: number): WindowDecision {
  return { outcome: "observed", policy, remaining: policy.limit, resetMs: nowMs + policy.windowMs };
}
