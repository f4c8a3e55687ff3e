// A token bucket for each client that was refused without spending quota. Other clients have no bucket. The number of
// buckets is bounded: the client whose last refusal is longest ago is forgotten, and later starts with a full bucket.
import { LRUCache } from "lru-cache";
import type { RefusalBudget } from "../core/refusal-budget.ts";
import { TokenBucket, type TokenRate } from "../core/token-bucket.ts";

/** With more clients, each of them gets another burst each time it is forgotten. */
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
