// What leaves in one call: what requests of one turn of the event loop want of one shard. All keys of a request are judged
// together, and units that it is granted are reserved for it alone, so one answer decides. What a turn wants beyond one call is
// in batches of its own, so that many requests are decided in portions.
import type { CounterRules } from "./counter-rules.ts";
import {
  type CounterAnswer,
  type CounterItem,
  type EqualRequests,
  leaseIdOf,
  mostItems,
  type ScriptAnswer,
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

  constructor(wants: readonly Want[]) {
    this.wants = wants;
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

/** How many units a request wants of a key: clients of a network that is counted as one have one key. */
interface BatchNeed {
  readonly counter: BatchCounter;
  units: number;
}

/** Requests that want the same of several keys, or more than one step of one. Grants go to the first of `demands`. */
interface Alike {
  readonly needs: readonly BatchNeed[];
  readonly demands: Demand[];
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
  /** Requests that are not in `single` of a counter. */
  readonly #several: Alike[] = [];
  /** The sum of keys, of requests for several keys, and of requests with leases of their own: these make the call longer. */
  #size = 0;

  constructor(shard: Shard, sinceMs: number) {
    this.shard = shard;
    this.sinceMs = sinceMs;
  }

  /** Whether a request for these keys can be added. A call is short, and asks about a key of the store by one limit only. */
  hasRoomFor(wants: readonly Pick<Want, "key">[]): boolean {
    if (this.#size + wants.length >= mostItems) return false;
    for (const { key } of wants) if ((this.#counterAt(key.storeKey)?.key ?? key) !== key) return false;
    return true;
  }

  /** A call has few counters, and most of them one or two: looking at each costs less than a map for each call. */
  #counterAt(storeKey: string): BatchCounter | undefined {
    for (const counter of this.counters) if (counter.key.storeKey === storeKey) return counter;
    return undefined;
  }

  /** Has the call report what there is to report of a key. Returns its counter. */
  join(key: SharedKey): BatchCounter {
    let counter = this.#counterAt(key.storeKey);
    if (counter === undefined) {
      counter = new BatchCounter(key, this.counters.length);
      this.counters.push(counter);
      this.#size += 1;
      key.calls += 1;
    }
    return counter;
  }

  add(demand: Demand): void {
    const alike = this.#alikeOf(demand.wants);
    alike.push(demand);
    this.demands.push(demand);
    if (!demand.wants.some(({ key }) => key.rules.isByRequest)) return;
    // More of them than the limit get no leases, but are decided in the same turn.
    const fits = demand.wants.every(({ key: { rules }, units }) => alike.length * units <= rules.limit);
    this.#size += fits ? 1 : refusedSize;
  }

  /** Returns the requests of the call that want the same. */
  #alikeOf(wants: readonly Want[]): Demand[] {
    const [only] = wants;
    if (only !== undefined && wants.length === 1 && only.units === only.key.rules.step) {
      const counter = this.join(only.key);
      counter.wanted += only.units;
      return counter.single;
    }
    const needs = this.#needsOf(wants);
    for (const { counter, units } of needs) counter.wanted += units;
    for (const alike of this.#several) if (isSame(alike.needs, needs)) return alike.demands;
    const demands: Demand[] = [];
    this.#several.push({ needs, demands });
    this.#size += 1;
    return demands;
  }

  #needsOf(wants: readonly Want[]): readonly BatchNeed[] {
    const needs: BatchNeed[] = [];
    for (const { key, units } of wants) {
      const counter = this.join(key);
      const need = needs.find((each) => each.counter === counter);
      if (need === undefined) needs.push({ counter, units });
      else need.units += units;
    }
    return needs;
  }

  /** Returns the part of the call that asks for requests of several keys. */
  requestItems(): EqualRequests[] {
    return this.#several.map(({ needs, demands }) => ({
      count: demands.length,
      needs: needs.map(({ counter, units }) => ({ item: counter.place, units })),
    }));
  }

  /** Returns the ids and units of all leases that the call may have been granted of a key. */
  leasesOf(counter: BatchCounter): (readonly [id: string, granted: number])[] {
    const { single, wanted, sent } = counter;
    if (sent === null) return [];
    const { id, step, ahead } = sent.item;
    if (!sent.rules.isByRequest) return [[id, wanted + ahead]];
    const leases = single.map((_, place) => [leaseIdOf(id, place), step] as const);
    let place = single.length;
    for (const { needs, demands } of this.#several) {
      const units = needs.find((need) => need.counter === counter)?.units ?? 0;
      for (const _ of demands) {
        if (units > 0) leases.push([leaseIdOf(id, place), units]);
        place += 1;
      }
    }
    return leases;
  }

  /** Takes the answer of the call: gives each key its own, and finds out which keys have refused a request. */
  judge({ items, requests }: ScriptAnswer): void {
    for (const counter of this.counters) {
      const answer = items[counter.place];
      if (answer?.item !== "counter") continue;
      counter.answer = answer;
      counter.isRefused = answer.askedGranted < counter.single.length;
    }
    for (const [i, { needs, demands }] of this.#several.entries()) {
      if (requests[i] === demands.length) continue;
      for (const { counter, units } of needs) if (counter.hasRefused(units)) counter.isRefused = true;
    }
  }

  /** Reserves what the call was granted for the requests that wait for it, and tells them. Must be called after `judge`. */
  settle({ requests }: ScriptAnswer, makeLease: MakeLease): void {
    for (const counter of this.counters) {
      const granted = counter.answer?.askedGranted ?? 0;
      const { step } = counter.key.rules;
      // Pairs of `entries()` would cost each request.
      let place = 0;
      for (const demand of counter.single) {
        if (place < granted) demand.answer([grantOf(demand, counter, place, step, makeLease)]);
        else demand.answer([counter.hasRefused(step) ? refused : spared]);
        place += 1;
      }
    }
    let place = 0;
    for (const [i, { needs, demands }] of this.#several.entries()) {
      const end = place + (requests[i] ?? 0);
      for (const demand of demands) {
        const isGranted = place < end;
        const grants = demand.wants.map(({ key, units }) => {
          const need = needs.find(({ counter }) => counter.key === key) as BatchNeed;
          const { counter } = need;
          if (isGranted) return grantOf(demand, counter, counter.single.length + place, units, makeLease);
          return counter.hasRefused(need.units) ? refused : spared;
        });
        demand.answer(grants);
        place += 1;
      }
    }
  }

  /** Must be called once, when the call has ended or is not made. */
  end(): void {
    for (const { key } of this.counters) key.calls -= 1;
  }

  /** Decides the requests that still wait without the store, because no answer came in time. */
  decideAlone(): void {
    for (const demand of this.demands) demand.decideAlone();
  }
}

function isSame(needs: readonly BatchNeed[], others: readonly BatchNeed[]): boolean {
  if (needs.length !== others.length) return false;
  return needs.every(({ counter, units }, i) => counter === others[i]?.counter && units === others[i]?.units);
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
