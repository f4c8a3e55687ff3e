// The exact sliding window of one client: a ring of the instants of its last admissions. Never more than `limit`
// admissions in any trailing window; a refused call spends nothing; there is no estimate, bucket or burst.
// An admission counts while younger than the window; at the age of exactly the window it has expired.
import type { Decision, Outcome, Policy } from "./policy.ts";

export class SlidingWindow {
  readonly policy: Policy;
  // Most clients make few requests, so the ring starts with one place and doubles up to the limit.
  #admittedAtMs: number[] = [];
  #oldest = 0;
  #counted = 0;

  constructor(policy: Policy) {
    this.policy = policy;
  }

  /** Charges one request, or throttles it and charges nothing. Readings must not go back. */
  take(nowMs: number): Decision {
    this.#forgetUntil(nowMs);
    if (this.#counted >= this.policy.limit) return this.#decide("throttled", nowMs);
    this.#record(nowMs);
    return this.#decide("admitted", nowMs);
  }

  /** Looks without charging. */
  peek(nowMs: number): Decision {
    this.#forgetUntil(nowMs);
    return this.#decide("observed", nowMs);
  }

  /** The instant from which on nothing counts: forgetting this window then changes no decision. */
  expiresAtMs(): number {
    const { length } = this.#admittedAtMs;
    if (length === 0) return Number.NEGATIVE_INFINITY;
    // The newest stays in its place when it has expired, so looking changes nothing here.
    return this.#at((this.#oldest + this.#counted - 1 + length) % length) + this.policy.windowMs;
  }

  /** When nothing is left: the instant at which something is again. Undefined while a request would be admitted. */
  exhaustedUntilMs(): number | undefined {
    return this.#counted >= this.policy.limit ? this.#resetMs() : undefined;
  }

  #forgetUntil(nowMs: number): void {
    // The same sum as #resetMs, so that the instant a client is told is the instant that is kept, to the last bit.
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
    // Indices are taken modulo the length, so there always is a value; NaN would admit nothing and show the bug.
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

/** What a client of whom nothing is stored sees. */
export function untouched(policy: Policy, nowMs: number): Decision {
  return { outcome: "observed", policy, remaining: policy.limit, resetMs: nowMs + policy.windowMs };
}
