// What failed at the upstream in the last minutes: how often, why and at which address. Those who look after a failing upstream need
// both, and a state alone hides that every second request fails.
import type { UpstreamErrorReason } from "../../core/upstream.ts";

/** Requests that failed in the same way. */
export interface FailedRequests {
  readonly reason: UpstreamErrorReason;
  /** As in a URL; null if none was reached, or those of too many addresses. */
  readonly address: string | null;
  readonly count: number;
}

/** So many are told one by one: more than an upstream has addresses that fail in several ways. */
const maxNamed = 64;

/** Adds up requests by reason and address. */
export class FailureCounts {
  readonly #counts = new Map<string, FailedRequests>();

  get all(): readonly FailedRequests[] {
    return [...this.#counts.values()];
  }

  add({ reason, address, count }: FailedRequests): void {
    const name = `${reason} ${address}`;
    const known = this.#counts.get(name);
    if (known === undefined && address !== null && this.#counts.size >= maxNamed) {
      this.add({ reason, address: null, count });
    } else this.#counts.set(name, { reason, address, count: count + (known?.count ?? 0) });
  }
}
