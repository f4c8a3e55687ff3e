// Bounds how often a client may reset streams (CVE-2023-44487): a reset request costs the gateway more than the client,
// which never waits for a response. A browser that leaves a page resets many streams at once, but not continuously.

const burst = 200;
const perSecond = 20;

export class ResetAllowance {
  readonly #nowMs: () => number;
  #left = burst;
  #sinceMs: number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#sinceMs = nowMs();
  }

  /** Counts a reset; false if there have been too many. */
  take(): boolean {
    const nowMs = this.#nowMs();
    this.#left = Math.min(burst, this.#left + ((nowMs - this.#sinceMs) / 1000) * perSecond) - 1;
    this.#sinceMs = nowMs;
    return this.#left >= 0;
  }
}
