// A token bucket for each client that was refused without spending quota. Other clients have no bucket. The number of
// buckets is bounded: the client whose last refusal is longest ago is forgotten, and later starts with a full bucket.
import { LRUCache } from "lru-cache";
import type { RefusalBudget } from "../core/limiter.ts";
import { TokenBucket, type TokenRate } from "../core/token-bucket.ts";

/** With more clients, each of them gets another burst each time it is forgotten. */
const maxClients = 10_000;

export class RefusalBuckets implements RefusalBudget {
  readonly #rate: TokenRate;
  /** Null until a client has spent: most reloads make buckets that nobody needs. */
  #buckets: LRUCache<string, TokenBucket> | null = null;

  constructor(rate: TokenRate) {
    this.#rate = rate;
  }

  /** Returns buckets with another rate. What a client has spent stays spent. */
  withRate(rate: TokenRate, nowMs: number): RefusalBuckets {
    const next = new RefusalBuckets(rate);
    // The one that is forgotten first comes first.
    for (const client of [...(this.#buckets?.rkeys() ?? [])]) {
      const before = this.#buckets?.peek(client);
      if (before === undefined) continue;
      before.refill(nowMs);
      const bucket = new TokenBucket(rate, nowMs);
      bucket.take(Math.max(0, rate.burst - before.left));
      next.#add(client, bucket);
    }
    return next;
  }

  isSpent(client: string, nowMs: number): boolean {
    const bucket = this.#buckets?.peek(client);
    if (bucket === undefined) return false;
    bucket.refill(nowMs);
    return bucket.left < 1;
  }

  spend(client: string, nowMs: number): void {
    const known = this.#buckets?.get(client);
    const bucket = known ?? new TokenBucket(this.#rate, nowMs);
    if (known === undefined) this.#add(client, bucket);
    bucket.refill(nowMs);
    bucket.take(Math.min(1, bucket.left));
  }

  /** The clients that have a bucket. */
  get size(): number {
    return this.#buckets?.size ?? 0;
  }

  #add(client: string, bucket: TokenBucket): void {
    this.#buckets ??= new LRUCache({ max: maxClients });
    this.#buckets.set(client, bucket);
  }
}
