// How often a client may take requests back (CVE-2023-44487): each costs the gateway more than it costs the client,
// since the client never waits for an answer. Who leaves a page takes many back at once, but not again and again.

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

  /** False if there have been too many. */
  take(): boolean {
    const nowMs = this.#nowMs();
    this.#left = Math.min(burst, this.#left + ((nowMs - this.#sinceMs) / 1000) * perSecond) - 1;
    this.#sinceMs = nowMs;
    return this.#left >= 0;
  }
}
