// The items that leave in one call: what requests of one turn of the event loop need of one shard. What a turn needs beyond
// one call is in batches of its own, so that many requests are decided in portions.
import type { KeyCredits } from "./credits.ts";
import type { Shard } from "./shard.ts";

/** `answered`: the call has its answer. `alone`: it has none in time, and requests are decided without the store. */
export type Conclusion = "answered" | "alone";

/** Units of a key that a request waits for. */
export interface Wanted {
  readonly credits: KeyCredits;
  readonly units: number;
}

interface BatchItem {
  readonly credits: KeyCredits;
  /** Units that requests wait for. */
  needed: number;
}

export class CallBatch {
  readonly shard: Shard;
  /** When the first request began to wait. */
  readonly sinceMs: number;
  /** Requests that wait for it. */
  waiting = 0;
  readonly items: BatchItem[] = [];
  timer: { cancel(): void } | null = null;
  /** The items that more units of their key can join. */
  readonly #byKey = new Map<KeyCredits, BatchItem>();
  readonly #concluded = Promise.withResolvers<Conclusion>();
  #isConcluded = false;

  constructor(shard: Shard, sinceMs: number) {
    this.shard = shard;
    this.sinceMs = sinceMs;
  }

  get concluded(): Promise<Conclusion> {
    return this.#concluded.promise;
  }

  /** `isAwaited`: false if no request waits; then nothing is needed. */
  add(credits: KeyCredits, needed: number, isAwaited: boolean): void {
    // A request that needs nothing of its own waits for what others ask.
    const isOwn = credits.rules.isByRequest && (needed > 0 || !isAwaited);
    const item = isOwn ? undefined : this.#byKey.get(credits);
    credits.awaitedUnits += needed;
    if (item === undefined) {
      const added = { credits, needed };
      this.items.push(added);
      this.#byKey.set(credits, added);
    } else {
      item.needed += needed;
    }
  }

  /** Only the first conclusion counts. */
  conclude(conclusion: Conclusion): void {
    this.timer?.cancel();
    if (this.#isConcluded) return;
    this.#isConcluded = true;
    this.waiting = 0;
    for (const { credits, needed } of this.items) credits.awaitedUnits -= needed;
    this.#concluded.resolve(conclusion);
  }
}
