// Renders the metrics for scrapes. However many come, rendering takes a small part of the time, so that they cannot slow
// the traffic down. Every scrape gets figures that were read after it came; those that come meanwhile share one text.
import type { Clock } from "../core/clock.ts";

/** A rendering is followed by a pause of so many times its own length: at most 5 % of the time is spent. */
const pauseFactor = 20;

/** Prometheus waits 10 s for a scrape by default. */
const maxPauseMs = 500;

export class SharedScrapes<Rendered> {
  readonly #render: () => Promise<Rendered>;
  readonly #clock: Pick<Clock, "monotonicMs">;
  /** Shared by the scrapes that came since the last rendering began. */
  #next: Promise<Rendered> | null = null;
  #paused: Promise<void> = Promise.resolve();

  constructor(render: () => Promise<Rendered>, clock: Pick<Clock, "monotonicMs">) {
    this.#render = render;
    this.#clock = clock;
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
      const pauseMs = Math.min(maxPauseMs, pauseFactor * (this.#clock.monotonicMs() - beganMs));
      if (pauseMs > 0) setTimeout(ended.resolve, pauseMs).unref();
      else ended.resolve();
    }
  }
}
