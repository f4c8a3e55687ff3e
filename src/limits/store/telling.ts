// Sends many items that no request waits for: what a gateway tells a shard that was away or has forgotten, and the renewals of
// slots.
import { CounterKey } from "../../core/counter-key.ts";
import type { OwnCount } from "../counters.ts";
import type { CounterTable } from "../table/counter-table.ts";
import { recordsOf } from "../table/maintenance.ts";
import type { StorePolicy } from "./credits.ts";

/**
 * Sends items in calls of `mostItems` at most, `mostCalls` at a time. A null among the items ends what is looked at in one
 * turn of the event loop. Resolves when every call has ended; stops when `send` resolves with false.
 */
export async function sendAll<T>(
  items: Iterator<T | null, unknown>,
  { mostItems, mostCalls }: { readonly mostItems: number; readonly mostCalls: number },
  send: (items: readonly T[]) => Promise<boolean>,
  endOfTurn: (run: () => void) => void,
): Promise<boolean> {
  let goesOn = true;
  let pause: Promise<void> | null = null;
  const next = async (): Promise<readonly T[]> => {
    const together: T[] = [];
    while (together.length < mostItems) {
      if (pause !== null) {
        await pause;
        continue;
      }
      const { value, done } = items.next();
      if (done) break;
      if (value !== null) together.push(value as T);
      else
        pause = new Promise<void>(endOfTurn).then(() => {
          pause = null;
        });
    }
    return together;
  };
  const sendInTurn = async (): Promise<void> => {
    while (goesOn) {
      const together = await next();
      if (together.length === 0) return;
      goesOn = (await send(together)) && goesOn;
    }
  };
  await Promise.all(Array.from({ length: mostCalls }, sendInTurn));
  return goesOn;
}

// What a gateway knows by itself of what it has admitted, and tells a store that does not know it.

/** A key of the table of which something counts. */
export interface OwnKey extends OwnCount {
  readonly policy: StorePolicy;
  readonly key: CounterKey;
}

/** Keys that are looked at in one turn of the event loop. */
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
    const shard = maintenance.copyShard(index);
    let looked = 0;
    // Null: a thread is changing it; its keys are told when they are asked for.
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
