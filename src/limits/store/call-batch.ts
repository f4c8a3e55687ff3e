// The items that leave in one call: what requests of one turn of the event loop need of one shard. What a turn needs beyond
// one call is in batches of its own, so that many requests are decided in portions. What the call is granted is kept for
// the requests that wait for it.
import type { KeyCredits } from "./credits.ts";
import type { Shard } from "./shard.ts";

/** `answered`: the call has its answer. `alone`: it has none in time, and requests are decided without the store. */
export type Conclusion = "answered" | "alone";

/** Units of a key that belong to one request until it is decided: those that it waits for, and those that it found. */
export class Claim {
  readonly credits: KeyCredits;
  readonly units: number;
  /** Whether they are held: then nobody else may spend them. */
  isHeld = false;
  /** Whether the request was decided, or asks anew: an answer that comes later is for others. */
  isOver = false;

  constructor(credits: KeyCredits, units: number) {
    this.credits = credits;
    this.units = units;
  }

  hold(): void {
    this.isHeld = true;
    this.credits.claimed += this.units;
  }

  release(): void {
    if (this.isHeld) this.credits.claimed -= this.units;
    this.isHeld = false;
    this.isOver = true;
  }
}

interface BatchItem {
  readonly credits: KeyCredits;
  /** Of the requests that wait, in their order. */
  readonly claims: Claim[];
  /** Units of them. */
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

  /** `claim`: null if no request waits; then nothing is needed. */
  add(credits: KeyCredits, claim: Claim | null): void {
    const needed = claim === null ? 0 : claim.units;
    // A request that needs nothing of its own waits for what others ask.
    const isOwn = credits.rules.isByRequest && (needed > 0 || claim === null);
    let item = isOwn ? undefined : this.#byKey.get(credits);
    credits.awaitedUnits += needed;
    if (item === undefined) {
      item = { credits, claims: [], needed: 0 };
      this.items.push(item);
      this.#byKey.set(credits, item);
    }
    item.needed += needed;
    if (needed > 0 && claim !== null) item.claims.push(claim);
  }

  /** Keeps what an item was granted for the requests that wait for it, unless they were decided without it. */
  granted(item: number, units: number): void {
    let left = this.#isConcluded ? 0 : units;
    for (const claim of this.items[item]?.claims ?? []) {
      if (claim.isOver || claim.units > left) continue;
      left -= claim.units;
      claim.hold();
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
