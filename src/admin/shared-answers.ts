// Makes an answer that costs much, such as the metrics, for all who ask at the same time. However many come, it takes a small
// part of the time, so that they cannot slow the traffic down. Everybody gets what was read after they came; those that come
// meanwhile share one answer.
import type { Clock } from "../core/clock.ts";

/** Making one is followed by a pause of so many times its own length: at most 5 % of the time is spent. */
const pauseFactor = 20;

/** Prometheus waits 10 s for a scrape by default. */
const defaultMaxPauseMs = 500;

export class SharedAnswers<Rendered> {
  readonly #render: () => Promise<Rendered>;
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #maxPauseMs: number;
  /** Shared by those who came since the last rendering began. */
  #next: Promise<Rendered> | null = null;
  #paused: Promise<void> = Promise.resolve();

  constructor(render: () => Promise<Rendered>, clock: Pick<Clock, "monotonicMs">, maxPauseMs = defaultMaxPauseMs) {
    this.#render = render;
    this.#clock = clock;
    this.#maxPauseMs = maxPauseMs;
  }

  rendered(): Promise<Rendered> {
    this.#next ??= this.#paused.then(() => this.#renderOnce());
    return this.#next;
  }

  async #renderOnce(): Promise<Rendered> {
    this.#next = null;
    const beganMs = this.#clock.monotonicMs();
    const ended = Promise.withResolvers<void>();
    this.#paused = ended.promise;
    try {
      return await this.#render();
    } finally {
      const pauseMs = Math.min(this.#maxPauseMs, pauseFactor * (this.#clock.monotonicMs() - beganMs));
      if (pauseMs > 0) setTimeout(ended.resolve, pauseMs).unref();
      else ended.resolve();
    }
  }
}
