// The items that leave in one call: what requests of one turn of the event loop need of one shard. What a turn needs beyond
// one call is in batches of its own, so that many requests are decided in portions. What the call is granted is kept for
// the requests that wait for it.
import type { KeyCredits } from "./credits.ts";
import { mostItems } from "./script-call.ts";
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
  /** How large the call is: its items, and of those that are leased by request, the requests. */
  size = 0;
  timer: { cancel(): void } | null = null;
  /** By the key in the store, of which a call has one item. */
  readonly #byKey = new Map<string, BatchItem>();
  readonly #concluded = Promise.withResolvers<Conclusion>();
  #isConcluded = false;

  constructor(shard: Shard, sinceMs: number) {
    this.shard = shard;
    this.sinceMs = sinceMs;
  }

  get concluded(): Promise<Conclusion> {
    return this.#concluded.promise;
  }

  /** Whether the call can have so many items more, the first of a key of which it has none by another limit. */
  hasRoom(credits: KeyCredits, items: number): boolean {
    return this.size + items <= mostItems && (this.#byKey.get(credits.storeKey)?.credits ?? credits) === credits;
  }

  /** `claim`: null if no request waits; then nothing is needed. */
  add(credits: KeyCredits, claim: Claim | null): void {
    const needed = claim === null ? 0 : claim.units;
    let item = this.#byKey.get(credits.storeKey);
    credits.awaitedUnits += needed;
    if (item === undefined || (credits.rules.isByRequest && needed > 0)) this.size += 1;
    if (item === undefined) {
      item = { credits, claims: [], needed: 0 };
      this.items.push(item);
      this.#byKey.set(credits.storeKey, item);
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
