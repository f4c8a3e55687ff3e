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

/** Yields the keys with counts of their own, a part of the table at a time. `policyOf`: by the slot in the table. */
export function* ownKeys(
  { maintenance }: CounterTable,
  policyOf: (slot: number) => SharedPolicy | undefined,
  nowMs: () => number,
): Generator<OwnKey> {
  for (let index = 0; index < maintenance.shardCount; index += 1) {
    const shard = maintenance.copyShard(index);
    // A thread is changing it; its keys are told when they are asked for.
    if (shard === null) continue;
    for (const { slot, kind, key: words, isAddress } of recordsOf(shard)) {
      const policy = kind === "own" ? policyOf(slot) : undefined;
      if (policy === undefined) continue;
      const key = new CounterKey(...words, isAddress);
      const count = policy.own(key, key, nowMs());
      if (count !== null) yield { ...count, policy, key };
    }
  }
}
