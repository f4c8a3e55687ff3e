// The oracle: every admission ever, kept in a plain list and looked through from the start each time. Too slow to
// serve with and too simple to be wrong. Forgets nothing, so that trailing windows can be counted over the whole past.
// An admission counts from the next whole millisecond on, and for as many whole milliseconds as its window takes.
import type { Answer, WindowLimit } from "./one-limit.ts";

export class NaiveLog {
  readonly policy: WindowLimit;
  readonly #windowMs: number;
  readonly #admittedAtMs = new Map<string, number[]>();

  constructor(policy: WindowLimit) {
    this.policy = policy;
    this.#windowMs = Math.ceil(policy.windowMs);
  }

  acquire(client: string, nowMs: number): Answer {
    if (this.#younger(client, nowMs).length >= this.policy.limit) return this.#answer("throttled", client, nowMs);
    this.#admittedAtMs.set(client, [...(this.#admittedAtMs.get(client) ?? []), Math.ceil(nowMs)]);
    return this.#answer("admitted", client, nowMs);
  }

  peek(client: string, nowMs: number): Answer {
    return this.#answer("observed", client, nowMs);
  }

  /** Admissions that count at an instant: half open, what is as old as the window does not. */
  #younger(client: string, nowMs: number): number[] {
    return (this.#admittedAtMs.get(client) ?? []).filter((atMs) => nowMs < atMs + this.#windowMs);
  }

  #answer(outcome: Answer["outcome"], client: string, nowMs: number): Answer {
    const younger = this.#younger(client, nowMs);
    return {
      outcome,
      remaining: Math.max(0, this.policy.limit - younger.length),
      resetMs: (younger[0] ?? nowMs) + this.#windowMs,
    };
  }
}
