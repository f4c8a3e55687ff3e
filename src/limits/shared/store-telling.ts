// What is told to a shard that was away or has forgotten: each key of the table of which this gateway has admitted
// something that the shard may not know.
import type { Clock } from "../../core/clock.ts";
import type { StoreLink, Timers } from "../../core/shared-store.ts";
import type { CounterTable } from "../table/counter-table.ts";
import type { CreditBook } from "./credit-book.ts";
import { type Item, mostItems } from "./script-call.ts";
import type { Shard } from "./shard.ts";
import type { StoreCalls } from "./store-calls.ts";
import type { StoreItems } from "./store-items.ts";
import { storeTagOf } from "./store-tag.ts";
import { tell } from "./telling.ts";
import { type OwnKey, ownKeys } from "./told.ts";

export interface StoreTellingParts {
  readonly link: Pick<StoreLink, "isClustered">;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly table: CounterTable;
  readonly book: CreditBook;
  readonly items: StoreItems;
  readonly send: StoreCalls["send"];
  shardOf(tag: string): Shard | undefined;
}

export class StoreTelling {
  readonly #parts: StoreTellingParts;

  constructor(parts: StoreTellingParts) {
    this.#parts = parts;
  }

  /** Tells a shard what this gateway has admitted. `all`: before the shard was away, too. */
  tell(shard: Shard, all: boolean, told: () => void): void {
    const { link, clock, timers, table, book, send, shardOf } = this.#parts;
    const { incident, leftMs } = shard.state;
    const sinceMs = all ? Number.NEGATIVE_INFINITY : leftMs;
    const bySlot = new Map(Array.from(book.policies, (policy) => [policy.slot, policy]));
    tell({
      keys: ownKeys(
        table,
        (slot) => bySlot.get(slot),
        () => clock.monotonicMs(),
      ),
      mostItems: link.isClustered ? 1 : mostItems,
      itemOf: (own) => {
        const isNew = clock.monotonicMs() - own.ageMs >= sinceMs;
        return isNew && shardOf(storeTagOf(own.key)) === shard ? this.#item(own, incident) : null;
      },
      send: (items, answered) =>
        // If the shard is lost again, there will be another telling.
        send(shard, items, (answer) => answered(shard.state.incident === incident ? answer : null)),
      later: timers.endOfTurn.bind(timers),
      told,
    });
  }

  #item(own: OwnKey, incident: number): Item {
    const { policy, key } = own;
    const { clock, book, items } = this.#parts;
    const tag = storeTagOf(key);
    const rules = policy.rules(tag, clock.monotonicMs());
    const credits = policy.find(tag, rules) ?? book.create(policy, tag, key, key, rules);
    credits.toldIncident = incident;
    credits.toldAlone = credits.admittedAlone;
    return items.telling(credits, own, clock.monotonicMs());
  }
}
