// The time: of this machine, and of the gateway, whose answers carry a Date in whole seconds.

/** @returns {number} Milliseconds since 1970, by this machine. */
export function localMs() {
  return Date.now();
}

export class GatewayClock {
  /** What the gateway is ahead, in milliseconds. Its Date is up to a second old: the largest difference is the nearest. */
  #aheadMs = null;

  /** @param {string | null} date The field of an answer that has just come. */
  observe(date) {
    const atMs = Date.parse(date ?? "");
    if (Number.isNaN(atMs)) return;
    const aheadMs = atMs - localMs();
    // The clock of one of the two has been set.
    const isFar = this.#aheadMs !== null && Math.abs(aheadMs - this.#aheadMs) > 5_000;
    this.#aheadMs = isFar ? aheadMs : Math.max(aheadMs, this.#aheadMs ?? aheadMs);
  }

  /** @returns {number} Milliseconds since 1970, by the gateway. */
  nowMs() {
    return localMs() + (this.#aheadMs ?? 0);
  }
}
