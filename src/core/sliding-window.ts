// The exact sliding window of one client: a ring of the instants of its last admissions. Admits at most `limit`
// requests in any trailing window; a throttled request is not charged. Half open: an admission counts while it is
// younger than the window, and has expired at the age of exactly the window.
import type { Decision, Outcome, Policy } from "./policy.ts";

export class SlidingWindow {
  readonly policy: Policy;
  // Most clients send few requests, so the ring starts with one place and doubles up to the limit.
  #admittedAtMs: number[] = [];
  #oldest = 0;
  #counted = 0;

  constructor(policy: Policy) {
    this.policy = policy;
  }

  /** Charges one request, or throttles it and charges nothing. `nowMs` must not go back. */
  take(nowMs: number): Decision {
    this.#forgetUntil(nowMs);
    if (this.#counted >= this.policy.limit) return this.#decide("throttled", nowMs);
    this.#record(nowMs);
    return this.#decide("admitted", nowMs);
  }

  /** Returns the quota without charging. */
  peek(nowMs: number): Decision {
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
    // Uses #resetMs, so that the instant that clients are told is exactly the instant of the expiry.
    while (this.#counted > 0 && this.#resetMs() <= nowMs) {
      this.#oldest = (this.#oldest + 1) % this.#admittedAtMs.length;
      this.#counted -= 1;
    }
  }

  #record(nowMs: number): void {
    if (this.#counted === this.#admittedAtMs.length) this.#grow();
    this.#admittedAtMs[(this.#oldest + this.#counted) % this.#admittedAtMs.length] = nowMs;
    this.#counted += 1;
  }

  #grow(): void {
    const { length } = this.#admittedAtMs;
    const grown = new Array<number>(Math.min(this.policy.limit, Math.max(1, length * 2))).fill(0);
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

  #decide(outcome: Outcome, nowMs: number): Decision {
    return {
      outcome,
      policy: this.policy,
      remaining: this.policy.limit - this.#counted,
      resetMs: this.#counted > 0 ? this.#resetMs() : nowMs + this.policy.windowMs,
    };
  }
}

/** Returns the quota of a client that is not in the store. */
export function fullQuota(policy: Policy, nowMs: number): Decision {
  return { outcome: "observed", policy, remaining: policy.limit, resetMs: nowMs + policy.windowMs };
}
