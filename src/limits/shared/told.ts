// What a gateway knows by itself of what it has admitted, and tells a store that does not know it.
import { CounterKey } from "../../core/counter-key.ts";
import type { OwnCount } from "../counters.ts";
import type { CounterTable } from "../table/counter-table.ts";
import { recordsOf } from "../table/records.ts";
import type { SharedPolicy } from "./shared-policy.ts";

/** A key of the table of which something counts. */
export interface OwnKey extends OwnCount {
  readonly policy: SharedPolicy;
  readonly key: CounterKey;
}

/**
 * Yields the keys with counts of their own, and null after each shard of the table, of 4 MiB at most: to go through one takes
 * a few milliseconds. `policyOf`: by the slot in the table.
 */
export function* ownKeys(
  { maintenance }: CounterTable,
  policyOf: (slot: number) => SharedPolicy | undefined,
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
