// The requests of a run, by client: when they came, and whether they were admitted.
import type { Policy } from "../../src/core/policy.ts";

interface Arrival {
  readonly atMs: number;
  isAdmitted: boolean;
}

export class Arrivals {
  readonly #byClient = new Map<string, Arrival[]>();

  add(client: string, atMs: number): Arrival {
    const arrival = { atMs, isAdmitted: false };
    const list = this.#byClient.get(client);
    if (list === undefined) this.#byClient.set(client, [arrival]);
    else list.push(arrival);
    return arrival;
  }

  /**
   * What an exact window would have admitted of each client, and what was admitted, in requests. After an admission, others
   * may hold units for `leasedMs`: who was refused in that time is not missed.
   */
  *compare(
    { limit, cost, key }: Policy,
    windowMs: number,
    leasedMs: number,
  ): Generator<[string, { ideal: number; admitted: number }]> {
    const lists = key.length === 0 ? [["all", this.#all()] as const] : this.#byClient;
    for (const [client, list] of lists) {
      const ideal: number[] = [];
      let first = 0;
      let lastMs = Number.NEGATIVE_INFINITY;
      for (const { atMs, isAdmitted } of list) {
        if (isAdmitted) lastMs = atMs;
        else if (atMs - lastMs < leasedMs) continue;
        while (first < ideal.length && atMs - (ideal[first] ?? 0) >= windowMs) first += 1;
        if ((ideal.length - first + 1) * cost <= limit) ideal.push(atMs);
      }
      yield [client, { ideal: ideal.length, admitted: list.filter(({ isAdmitted }) => isAdmitted).length }];
    }
  }

  #all(): Arrival[] {
    return [...this.#byClient.values()].flat().sort((a, b) => a.atMs - b.atMs);
  }
}
