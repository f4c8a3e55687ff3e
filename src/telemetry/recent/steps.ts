// The last 15 minutes in steps of 5 s of one clock, each with what was seen in it. A step in which nobody could look is a gap.

export const stepMs = 5_000;

export const maxSteps = 180;

export interface StepsView<Seen> {
  readonly stepMs: number;
  /** The end of the last step, in Unix milliseconds by the wall clock of now; null before there is one. */
  readonly endMs: number | null;
  /** One for each 5 s, the oldest first; null: a gap. */
  readonly steps: readonly (Seen | null)[];
}

export class Steps<Seen> {
  /** The oldest first; null: a gap. */
  #kept: readonly (Seen | null)[] = [];
  #readMs: number;
  /** The number of the first step that is not over, since the clock's start. */
  #next: number;

  constructor(nowMs: number) {
    this.#readMs = nowMs;
    this.#next = Math.floor(nowMs / stepMs);
  }

  get kept(): readonly (Seen | null)[] {
    return this.#kept;
  }

  /**
   * Ends the steps that are over, if there are any. `look` is called for the last of them: what was counted in the others cannot
   * be told apart, so they are gaps. `durationMs`: since the call before, about 5 s, and longer after a gap. `gaps`: their number.
   */
  end(nowMs: number, look: (durationMs: number, gaps: number) => Seen): void {
    const current = Math.floor(nowMs / stepMs);
    if (current <= this.#next) return;
    const gaps = new Array<null>(Math.min(maxSteps, current - 1 - this.#next)).fill(null);
    this.#kept = [...this.#kept, ...gaps, look(nowMs - this.#readMs, gaps.length)].slice(-maxSteps);
    this.#next = current;
    this.#readMs = nowMs;
  }

  /** `nowMs`, `wallMs`: one instant of both clocks. */
  view(nowMs: number, wallMs: number): StepsView<Seen> {
    const endMs = this.#kept.length === 0 ? null : Math.round(wallMs - nowMs + this.#next * stepMs);
    return { stepMs, endMs, steps: this.#kept };
  }
}
