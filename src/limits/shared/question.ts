// A request that waits for the store: for one call, or for several if its policies have counters in several places.

/** `answered`: every call has its answer. `alone`: one has not, and the request is decided without the store. */
export type Conclusion = "answered" | "alone";

export class Question {
  readonly concluded: Promise<Conclusion>;
  #open = 0;
  #conclusion: Conclusion = "answered";
  readonly #resolve: (conclusion: Conclusion) => void;

  constructor() {
    const { promise, resolve } = Promise.withResolvers<Conclusion>();
    this.concluded = promise;
    this.#resolve = resolve;
  }

  /** Must be called for all calls before one of them is concluded. */
  join(): void {
    this.#open += 1;
  }

  conclude(conclusion: Conclusion): void {
    if (conclusion === "alone") this.#conclusion = "alone";
    this.#open -= 1;
    if (this.#open === 0) this.#resolve(this.#conclusion);
  }
}
