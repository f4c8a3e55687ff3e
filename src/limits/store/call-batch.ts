// What leaves in one call: what requests of one turn of the event loop want of one shard. All keys of a request are judged
// together, and units that it is granted are reserved for it alone, so one answer decides. What a turn wants beyond one call is
// in batches of its own, so that many requests are decided in portions.
import type { CounterRules } from "./counter-rules.ts";
import {
  type CounterAnswer,
  type CounterItem,
  leaseIdOf,
  mostItems,
  type ScriptAnswer,
  type StoreRequest,
} from "./script-call.ts";
import type { Shard } from "./shard.ts";
import { type Lease, type OwnReport, reserve, type SharedKey } from "./shared-key.ts";

/** Units of one key that a request wants. */
export interface Want {
  readonly key: SharedKey;
  readonly units: number;
}

/** What the store has decided about a want. */
export type Grant =
  /** The units are reserved for the request until the end of the lease: it must spend or release them. */
  | { readonly kind: "granted"; readonly lease: Lease; readonly units: number }
  /** The store has no room for them. What is known of the key says when there is. */
  | { readonly kind: "refused" }
  /** The store had room and took nothing, because another key of the request had none. */
  | { readonly kind: "spared" }
  /** The store has not answered in time, or cannot be asked. */
  | { readonly kind: "alone" };

const refused: Grant = { kind: "refused" };
const spared: Grant = { kind: "spared" };
export const alone: Grant = { kind: "alone" };

/** All that one request wants of one shard. */
export class Demand {
  readonly wants: readonly Want[];
  /** Whether the request waits: an answer that comes later is for nobody. */
  isWaiting = true;
  readonly #grants = Promise.withResolvers<readonly Grant[]>();
  #units: ReadonlyMap<SharedKey, number> | null = null;

  constructor(wants: readonly Want[]) {
    this.wants = wants;
  }

  /** How many units it wants of each key: clients of a network that is counted as one have one key. */
  get units(): ReadonlyMap<SharedKey, number> {
    this.#units ??= sumByKey(this.wants);
    return this.#units;
  }

  /** Resolves in the order of the wants. */
  get grants(): Promise<readonly Grant[]> {
    return this.#grants.promise;
  }

  /** Ends the wait. Only the first answer counts. */
  answer(grants: readonly Grant[]): void {
    if (!this.isWaiting) return;
    this.isWaiting = false;
    this.#grants.resolve(grants);
  }

  /** Ends the wait without the shard. */
  decideAlone(): void {
    this.answer(this.wants.map(() => alone));
  }
}

function sumByKey(wants: readonly Want[]): ReadonlyMap<SharedKey, number> {
  const units = new Map<SharedKey, number>();
  for (const want of wants) units.set(want.key, (units.get(want.key) ?? 0) + want.units);
  return units;
}

/** What a call says of one key, and the state of the key then, by which the answer is read. */
export interface SentCounter {
  readonly item: CounterItem;
  readonly reports: readonly OwnReport[];
  /** The rules by which it asks. */
  readonly rules: CounterRules;
  /** How often the key had been forgiven. */
  readonly forgiven: number;
  /** The incident of the shard in which it was sent. */
  readonly incident: number;
  /** The store is told of so many requests that were admitted alone; null: it is told nothing. */
  readonly told: number | null;
}

/** One key of a call. */
export class BatchCounter {
  readonly key: SharedKey;
  /** The place of its item in the call. */
  readonly place: number;
  /** Requests that want one step of this key, and no other key. */
  readonly single: Demand[] = [];
  /** Units that all requests of the call want of it. */
  wanted = 0;
  /** Null until the call is sent. */
  sent: SentCounter | null = null;
  /** Null until the call is answered. */
  answer: CounterAnswer | null = null;
  /** Whether a request of the call was refused because of this key. */
  isRefused = false;
  /** The lease of all requests; null if nothing was granted, or if each request has its own. */
  lease: Lease | null = null;
  /** The monotonic instant from which units of the call must not be spent. */
  endsMs = 0;

  constructor(key: SharedKey, place: number) {
    this.key = key;
    this.place = place;
  }

  /** Whether the store had no room for so many units of the key. A key that it has not counted was not refused. */
  hasRefused(units: number): boolean {
    const { answer } = this;
    if (answer === null || !answer.isInPeriod || answer.isForeign) return false;
    return answer.fitsUs !== 0 || answer.free < units;
  }
}

/** What a request that is certain to be refused adds to the size of a call. */
const refusedSize = 1 / 4;

/** Makes a lease of one request. `place`: as in `leaseIdOf`. */
type MakeLease = (counter: BatchCounter, place: number, units: number) => Lease;

export class CallBatch {
  readonly shard: Shard;
  /** When the first request began to wait. */
  readonly sinceMs: number;
  readonly counters: BatchCounter[] = [];
  /** All requests of the call, also those that wait no more. */
  readonly demands: Demand[] = [];
  /** Requests that want several keys, or more than one step: those that want the same, by what they want. */
  readonly #alike = new Map<string, Demand[]>();
  timer: { cancel(): void } | null = null;
  /** The sum of keys, of requests for several keys, and of requests with leases of their own: these make the call longer. */
  #size = 0;
  /** By the key in the store. */
  readonly #byKey = new Map<string, BatchCounter>();

  constructor(shard: Shard, sinceMs: number) {
    this.shard = shard;
    this.sinceMs = sinceMs;
  }

  /** Whether a request for these keys can be added. A call is short, and asks about a key of the store by one limit only. */
  hasRoomFor(wants: readonly Pick<Want, "key">[]): boolean {
    if (this.#size + wants.length >= mostItems) return false;
    return wants.every(({ key }) => (this.#byKey.get(key.storeKey)?.key ?? key) === key);
  }

  /** Has the call report what there is to report of a key. Returns its counter. */
  join(key: SharedKey): BatchCounter {
    let counter = this.#byKey.get(key.storeKey);
    if (counter === undefined) {
      counter = new BatchCounter(key, this.counters.length);
      this.counters.push(counter);
      this.#byKey.set(key.storeKey, counter);
      this.#size += 1;
      key.calls += 1;
    }
    return counter;
  }

  add(demand: Demand): void {
    const { wants } = demand;
    let only: BatchCounter | null = null;
    for (const { key, units } of wants) {
      const counter = this.join(key);
      counter.wanted += units;
      if (wants.length === 1 && units === key.rules.step) only = counter;
    }
    const alike = only === null ? this.#alikeOf(demand) : only.single;
    alike.push(demand);
    this.demands.push(demand);
    if (!demand.wants.some((want) => want.key.rules.isByRequest)) return;
    // More of them than the limit get no leases, but are decided in the same turn.
    const fits = demand.wants.every(({ key: { rules }, units: of }) => alike.length * of <= rules.limit);
    this.#size += fits ? 1 : refusedSize;
  }

  #alikeOf(demand: Demand): Demand[] {
    const name = Array.from(demand.units, ([key, units]) => `${this.join(key).place}/${units}`).join();
    let alike = this.#alike.get(name);
    if (alike === undefined) {
      alike = [];
      this.#alike.set(name, alike);
      this.#size += 1;
    }
    return alike;
  }

  /** Requests that want several keys, or more than one step; those that want the same one after the other. */
  get several(): readonly Demand[] {
    return [...this.#alike.values()].flat();
  }

  /** Returns the part of the call that asks for requests of several keys. */
  requestItems(): StoreRequest[] {
    return this.several.map(({ units }) => ({
      needs: Array.from(units, ([key, of]) => ({ item: this.join(key).place, units: of })),
    }));
  }

  /** Returns the ids and units of all leases that the call may have been granted of a key. */
  leasesOf({ key, single, wanted, sent }: BatchCounter): (readonly [id: string, granted: number])[] {
    if (sent === null) return [];
    const { id, step, ahead } = sent.item;
    if (!sent.rules.isByRequest) return [[id, wanted + ahead]];
    const own = [...single.map((_, at) => [at, step] as const), ...this.severalOf(key, single.length)];
    return own.map(([place, units]) => [leaseIdOf(id, place), units]);
  }

  /** Returns the places and units of the leases that requests for several keys have of one, counted from `first`. */
  severalOf(key: SharedKey, first: number): (readonly [place: number, units: number])[] {
    return this.several.flatMap(({ units }, i) => {
      const of = units.get(key);
      return of === undefined ? [] : [[first + i, of] as const];
    });
  }

  /** Takes the answer of the call: gives each key its own, and finds out which keys have refused a request. */
  judge({ items, requests }: ScriptAnswer): void {
    for (const counter of this.counters) {
      const answer = items[counter.place];
      if (answer?.item !== "counter") continue;
      counter.answer = answer;
      counter.isRefused = answer.askedGranted < counter.single.length;
    }
    for (const [i, { units }] of this.several.entries()) {
      if (requests[i] === true) continue;
      for (const [key, of] of units) {
        const counter = this.join(key);
        if (counter.hasRefused(of)) counter.isRefused = true;
      }
    }
  }

  /** Reserves what the call was granted for the requests that wait for it, and tells them. Must be called after `judge`. */
  settle({ requests }: ScriptAnswer, makeLease: MakeLease): void {
    for (const counter of this.counters) {
      const granted = counter.answer?.askedGranted ?? 0;
      for (let i = 0; i < counter.single.length; i += 1) {
        const demand = counter.single[i] as Demand;
        if (i >= granted) this.#refuse(demand);
        else demand.answer([grantOf(demand, counter, i, counter.key.rules.step, makeLease)]);
      }
    }
    for (const [i, demand] of this.several.entries()) {
      if (requests[i] !== true) {
        this.#refuse(demand);
        continue;
      }
      const grants = demand.wants.map(({ key, units }) => {
        const counter = this.join(key);
        return grantOf(demand, counter, counter.single.length + i, units, makeLease);
      });
      demand.answer(grants);
    }
  }

  #refuse(demand: Demand): void {
    const { wants, units } = demand;
    demand.answer(wants.map(({ key }) => (this.join(key).hasRefused(units.get(key) ?? 0) ? refused : spared)));
  }

  /** Must be called once, when the call has ended or is not made. */
  end(): void {
    for (const { key } of this.counters) key.calls -= 1;
  }

  /** Decides the requests that still wait without the store, because no answer came in time. */
  decideAlone(): void {
    this.timer?.cancel();
    for (const demand of this.demands) demand.decideAlone();
  }
}

/** A request that waits no more gets its leases too. Nothing of them is reserved, so their units are returned. */
function grantOf(
  { isWaiting }: Demand,
  counter: BatchCounter,
  place: number,
  units: number,
  makeLease: MakeLease,
): Grant {
  const lease = counter.lease ?? makeLease(counter, place, units);
  if (isWaiting) reserve(lease, units);
  return { kind: "granted", lease, units };
}
