// Tells a shard that was away or has forgotten what this gateway has admitted: each key of the table that the shard may not
// know. What was forgiven meanwhile must not be told.
import { CounterKey } from "../../core/counter-key.ts";
import type { OwnCount } from "../counters.ts";
import type { CounterTable } from "../table/counter-table.ts";
import { recordsOf } from "../table/maintenance.ts";
import type { Forgets } from "./forgets.ts";
import type { StoreItems } from "./items.ts";
import type { KeyBook } from "./key-book.ts";
import { type CounterItem, type Item, mostReports, type ScriptAnswer, storeTagOf } from "./script-call.ts";
import type { Shard, ShardMap } from "./shard.ts";
import type { OwnReport, SharedKey, StorePolicy } from "./shared-key.ts";
import { elapsed, type Timing } from "./store-clock.ts";
import type { StoreOptions } from "./store-options.ts";

/** How long the telling waits for what was forgiven to be read. A store that has forgotten it is told by others first. */
const mostReadingMs = 1_500;

/** What a call says of one key. */
interface Telling {
  readonly key: SharedKey;
  readonly item: CounterItem;
  /** The reports of the item. */
  readonly reports: readonly OwnReport[];
}

/** A key of the table, and what counts of it. */
interface OwnKey extends OwnCount {
  readonly policy: StorePolicy;
  readonly key: CounterKey;
}

/** How many keys are looked at in one turn of the event loop. */
const keysInTurn = 1_024;

/**
 * Yields the keys with counts of their own, and null where a turn has looked at enough: a shard of the table, of 4 MiB at
 * most, takes a few milliseconds. `policyOf`: by the slot in the table.
 */
export function* ownKeys(
  { maintenance }: CounterTable,
  policyOf: (slot: number) => StorePolicy | undefined,
  nowMs: () => number,
): Generator<OwnKey | null> {
  for (let index = 0; index < maintenance.shardCount; index += 1) {
    // Null: a thread is changing it; its keys are told when they are asked for.
    const shard = maintenance.copyShard(index);
    let looked = 0;
    for (const { slot, kind, key: words, isAddress } of shard === null ? [] : recordsOf(shard)) {
      const policy = kind === "own" ? policyOf(slot) : undefined;
      if (policy === undefined) continue;
      const key = new CounterKey(...words, isAddress);
      const count = policy.source.own(key, key, nowMs());
      if (count !== null) yield { ...count, policy, key };
      looked += 1;
      if (looked % keysInTurn === 0) yield null;
    }
    yield null;
  }
}

/** What a telling needs of the store. */
interface ToldStore extends Timing {
  readonly book: KeyBook;
  readonly items: StoreItems;
  readonly shards: ShardMap;
  join(key: SharedKey): void;
  reportAgain(key: SharedKey, reports: readonly OwnReport[]): void;
  sent(shard: Shard, items: readonly Item[]): Promise<ScriptAnswer | null>;
  sendAll<T>(
    items: Iterator<T | null, unknown>,
    mostCalls: number,
    send: (items: readonly T[]) => Promise<boolean>,
  ): Promise<boolean>;
}

export class Tellings {
  readonly #store: ToldStore;
  readonly #forgets: Forgets;
  readonly #options: StoreOptions;

  constructor(store: ToldStore, forgets: Forgets, options: StoreOptions) {
    this.#store = store;
    this.#forgets = forgets;
    this.#options = options;
  }

  /**
   * Tells a shard what it does not know, then calls `told`. `all`: the shard may have lost what it had acknowledged, so it is
   * also told what was admitted before it was away, and the leases that it has granted end.
   */
  tell(shard: Shard, all: boolean, told: () => void): void {
    const { incident } = shard;
    if (all) this.#dropLeases(shard);
    void this.#readForgiven()
      .then(() => this.#forgets.tellAll(shard))
      // If the shard is lost again, there will be another telling.
      .then(
        () =>
          shard.incident === incident &&
          this.#store.sendAll(this.#tellings(shard, all), 4, (some) => this.#send(shard, incident, some)),
      )
      .then((isTold) => isTold && told());
  }

  /** Tells a key again when this thread has read that others have forgiven it. */
  tellOnceRead(key: SharedKey): void {
    const { untold } = key;
    if (untold.isVoid) return;
    untold.isVoid = true;
    void this.#readForgiven().then(() => {
      untold.isVoid = false;
      if (key.owes) this.#store.join(key);
    });
  }

  async #send(shard: Shard, incident: number, tellings: readonly Telling[]): Promise<boolean> {
    const answer = await this.#store.sent(
      shard,
      tellings.map(({ item }) => item),
    );
    for (const [i, { key, reports }] of tellings.entries()) {
      const of = answer?.items[i];
      if (of === undefined) this.#store.reportAgain(key, reports);
      else key.held.reported(reports);
      if (of?.item !== "counter" || !of.isVoid) continue;
      // The key is told when it is asked for.
      key.untold.toldIncident = -1;
      this.tellOnceRead(key);
    }
    return answer !== null && shard.incident === incident;
  }

  /** Resolves when that is read, or after a bounded time: the script does not count what is told too early. */
  #readForgiven(): Promise<unknown> {
    const { readForgiven } = this.#options;
    if (readForgiven === undefined) return Promise.resolve();
    return Promise.race([readForgiven(), elapsed(this.#store.timers, mostReadingMs)]);
  }

  *#tellings(shard: Shard, all: boolean): Generator<Telling | null> {
    const { book, clock, shards } = this.#store;
    const { incident, leftMs } = shard;
    const bySlot = new Map(Array.from(book.policies, (policy) => [policy.source.slot, policy]));
    const nowMs = (): number => clock.monotonicMs();
    for (const own of ownKeys(this.#options.table, (slot) => bySlot.get(slot), nowMs)) {
      if (own === null) yield null;
      else if ((all || nowMs() - own.ageMs >= leftMs) && shards.of(storeTagOf(own.key)) === shard)
        yield this.#tellingOf(own, incident);
    }
  }

  #tellingOf(own: OwnKey, incident: number): Telling {
    const { book, clock, items } = this.#store;
    const tag = storeTagOf(own.key);
    const nowMs = clock.monotonicMs();
    const rules = own.policy.source.rules(tag, nowMs);
    const key = own.policy.find(tag, rules) ?? book.create(own.policy, tag, own.key, own.key, rules);
    const reports = key.held.takeReports(mostReports, nowMs);
    key.untold.knownUntilMs = nowMs + own.policy.longestCountMs;
    // It is told later.
    if (key.held.ended > 0) return { key, reports, item: items.counter(key, 0, 0, reports, null) };
    key.untold.toldIncident = incident;
    key.untold.requests = 0;
    return { key, reports, item: items.counter(key, 0, 0, reports, own) };
  }

  /** Ends all leases of a shard, because it may have lost them. */
  #dropLeases(shard: Shard): void {
    for (const key of this.#store.book.all()) {
      if (this.#store.shards.of(key.tag) !== shard) continue;
      key.endAll();
      key.last.refusedUntilMs = 0;
    }
  }
}
