// A token bucket for each client that was refused without spending quota. A client that never was has no bucket and costs
// nothing. The number of buckets is bounded: the client that was refused longest ago is forgotten, and starts anew.
import { LRUCache } from "lru-cache";
import type { RefusalBudget } from "../core/refusal-budget.ts";
import { TokenBucket, type TokenRate } from "../core/token-bucket.ts";

/** More clients at once are forgotten sooner: then each of them has at most a burst for every time it is forgotten. */
const maxClients = 10_000;

export class RefusalBuckets implements RefusalBudget {
  readonly #rate: TokenRate;
  readonly #buckets = new LRUCache<string, TokenBucket>({ max: maxClients });

  constructor(rate: TokenRate) {
    this.#rate = rate;
  }

  isSpent(client: string, nowMs: number): boolean {
    const bucket = this.#buckets.peek(client);
    if (bucket === undefined) return false;
    bucket.refill(nowMs);
    return bucket.left < 1;
  }

  spend(client: string, nowMs: number): void {
    const known = this.#buckets.get(client);
    const bucket = known ?? new TokenBucket(this.#rate, nowMs);
    if (known === undefined) this.#buckets.set(client, bucket);
    bucket.refill(nowMs);
    bucket.take(Math.min(1, bucket.left));
  }

  /** The clients that have a bucket. */
  get size(): number {
    return this.#buckets.size;
  }
}
