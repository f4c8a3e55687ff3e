// A request that waits for the store: for one call, or for several if its policies have counters in several places.
import type { Clock } from "../../core/clock.ts";
import type { Timers } from "../../core/shared-store.ts";
import { afterStoreTime } from "./store-time.ts";

/** `answered`: every call has its answer. `alone`: one has not, and the request is decided without the store. */
export type Conclusion = "answered" | "alone";

/**
 * What is known when a request is asked for. `first`: the store can be asked. `answered`: it has been, and may be asked
 * once more. `final`: it has been asked twice. `alone`: it has not answered in time.
 */
export type AskingPass = "first" | "answered" | "final" | "alone";

export class Question {
  #open = 0;
  #conclusion: Conclusion = "answered";
  #onConcluded: ((conclusion: Conclusion) => void) | null;
  #timer: { cancel(): void } | null = null;

  /** `onConcluded` is called once, in another turn than the last `join`. */
  constructor(onConcluded: (conclusion: Conclusion) => void) {
    this.#onConcluded = onConcluded;
  }

  /** Must be called for all calls before one of them is concluded. */
  join(): void {
    this.#open += 1;
  }

  conclude(conclusion: Conclusion): void {
    if (conclusion === "alone") this.#conclusion = "alone";
    this.#open -= 1;
    if (this.#open === 0) this.#end(this.#conclusion);
  }

  /** Waits for the store no longer than this: its calls may, because they were begun for others. */
  endAfter(ms: number, parts: { readonly clock: Clock; readonly timers: Timers }): void {
    this.#timer ??= afterStoreTime(parts, ms, () => this.#end("alone"));
  }

  /** There is nobody to ask. Concluded in another turn. */
  nobodyAnswers(timers: Timers): void {
    this.join();
    timers.endOfTurn(() => this.conclude("alone"));
  }

  #end(conclusion: Conclusion): void {
    this.#timer?.cancel();
    this.#onConcluded?.(conclusion);
    this.#onConcluded = null;
  }
}
