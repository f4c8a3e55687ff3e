// Tells a shard what this gateway has admitted and the shard may not know: after it was away, what was admitted meanwhile;
// after it has forgotten, all that still counts.
import { CounterKey } from "../../core/counter-key.ts";
import type { OwnCount } from "../counters.ts";
import type { CounterTable } from "../table/counter-table.ts";
import { recordsOf } from "../table/maintenance.ts";
import { type Item, mostItems, type ScriptAnswer } from "./script-call.ts";
import type { StorePolicy } from "./store-policy.ts";

export interface TellingParts {
  /** Null: finding the next one takes about as long as a turn may take. */
  readonly keys: Iterator<OwnKey | null, unknown>;
  /** Items of one call; 1 in a cluster, where each key has a place of its own. */
  readonly mostItems: number;
  /** Returns what is told about a key; null if it is another shard's, or known there. */
  itemOf(key: OwnKey): Item | null;
  /** `answered`: null if the shard is lost again. */
  send(items: readonly Item[], answered: (answer: ScriptAnswer | null) => void): void;
  /** Runs something in another turn of the event loop. */
  later(run: () => void): void;
  told(): void;
}

/** Calls that are under way together. */
const mostCalls = 4;
/** Keys that are looked at in one turn. */
const keysInTurn = 1_024;

export function tell(parts: TellingParts): void {
  const most = Math.min(parts.mostItems, mostItems);
  let open = 0;
  let isLost = false;
  let isWaiting = false;
  const next = (): void => {
    isWaiting = false;
    for (let looked = 0; open < mostCalls && !isLost; ) {
      const items: Item[] = [];
      for (; items.length < most && looked < keysInTurn; looked += 1) {
        const { value, done } = parts.keys.next();
        if (done) {
          conclude(items);
          return;
        }
        if (value === null) {
          looked = keysInTurn;
          break;
        }
        const item = parts.itemOf(value);
        if (item !== null) items.push(item);
      }
      if (items.length > 0) send(items);
      if (looked < keysInTurn) continue;
      isWaiting = true;
      parts.later(next);
      return;
    }
  };
  let isDone = false;
  const conclude = (items: readonly Item[]): void => {
    isDone = true;
    if (items.length > 0) send(items);
    else if (open === 0) parts.told();
  };
  const send = (items: readonly Item[]): void => {
    open += 1;
    parts.send(items, (answer) => {
      open -= 1;
      if (answer === null) isLost = true;
      if (isLost) return;
      if (isDone && open === 0) parts.told();
      else if (!isDone && !isWaiting) next();
    });
  };
  next();
}

// What a gateway knows by itself of what it has admitted, and tells a store that does not know it.

/** A key of the table of which something counts. */
export interface OwnKey extends OwnCount {
  readonly policy: StorePolicy;
  readonly key: CounterKey;
}

/**
 * Yields the keys with counts of their own, and null after each shard of the table, of 4 MiB at most: to go through one takes
 * a few milliseconds. `policyOf`: by the slot in the table.
 */
export function* ownKeys(
  { maintenance }: CounterTable,
  policyOf: (slot: number) => StorePolicy | undefined,
  nowMs: () => number,
): Generator<OwnKey | null> {
  for (let index = 0; index < maintenance.shardCount; index += 1) {
    const shard = maintenance.copyShard(index);
    // Null: a thread is changing it; its keys are told when they are asked for.
    for (const { slot, kind, key: words, isAddress } of shard === null ? [] : recordsOf(shard)) {
      const policy = kind === "own" ? policyOf(slot) : undefined;
      if (policy === undefined) continue;
      const key = new CounterKey(...words, isAddress);
      const count = policy.own(key, key, nowMs());
      if (count !== null) yield { ...count, policy, key };
    }
    yield null;
  }
}
