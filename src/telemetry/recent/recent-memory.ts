// What the main thread remembers of what all threads have handed over.
import { historyBytes } from "./history.ts";
import { policyHistoryBytes } from "./policy-history.ts";
import { Refusals } from "./refusals.ts";
import { RefusedKeys } from "./refused-keys.ts";
import type { RecentBatch, RecentSizes } from "./thread-recent.ts";

/** What V8 takes for one, about: most texts are short. */
const refusalBytes = 1_024;
const keyBytes = 384;

export class RecentMemory {
  refusals: Refusals;
  keys: RefusedKeys;

  constructor(sizes: RecentSizes) {
    this.refusals = new Refusals(sizes.refusals);
    this.keys = new RefusedKeys(sizes.keys);
  }

  /** Estimates. */
  get bytes(): Readonly<Record<"refusals" | "keys" | "history", number>> {
    const { refusals, keys } = this;
    return {
      refusals: refusalBytes * refusals.size,
      keys: keyBytes * keys.size,
      history: historyBytes + policyHistoryBytes,
    };
  }

  /** Refusals beyond the size are forgotten, and all keys if theirs changes. */
  resize(sizes: RecentSizes): void {
    if (sizes.refusals !== this.refusals.capacity) this.refusals = new Refusals(sizes.refusals, this.refusals);
    if (sizes.keys !== this.keys.capacity) this.keys = new RefusedKeys(sizes.keys);
  }

  /** `nowMs`: of the monotonic clock. */
  add({ refusals, keys }: RecentBatch, nowMs: number): void {
    for (const refusal of refusals) this.refusals.add(refusal);
    if (this.keys.capacity > 0) this.keys.add(keys, nowMs);
  }
}
