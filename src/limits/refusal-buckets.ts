// A token bucket for each client that was refused without spending quota. A client that never was has no bucket and costs
// nothing. The number of buckets is bounded: the client that was refused longest ago is forgotten, and starts anew.
import { LRUCache } from "lru-cache";
import type { RefusalBudget, RefusalRate } from "../core/refusal-budget.ts";

interface Bucket {
  /** Refusals left, at the instant `atMs`. */
  left: number;
  atMs: number;
}

/** More clients at once are forgotten sooner: then each of them has at most a burst for every time it is forgotten. */
const maxClients = 10_000;

export class RefusalBuckets implements RefusalBudget {
  readonly #rate: RefusalRate;
  readonly #buckets = new LRUCache<string, Bucket>({ max: maxClients });

  constructor(rate: RefusalRate) {
    this.#rate = rate;
  }

  isSpent(client: string, nowMs: number): boolean {
    const bucket = this.#buckets.peek(client);
    return bucket !== undefined && this.#left(bucket, nowMs) < 1;
  }

  spend(client: string, nowMs: number): void {
    const bucket = this.#buckets.get(client);
    if (bucket === undefined) {
      this.#buckets.set(client, { left: this.#rate.burst - 1, atMs: nowMs });
      return;
    }
    bucket.left = Math.max(0, this.#left(bucket, nowMs) - 1);
    bucket.atMs = nowMs;
  }

  /** The clients that have a bucket. */
  get size(): number {
    return this.#buckets.size;
  }

  #left({ left, atMs }: Bucket, nowMs: number): number {
    const { perSecond, burst } = this.#rate;
    return Math.min(burst, left + ((nowMs - atMs) * perSecond) / 1000);
  }
}
