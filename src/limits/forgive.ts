// Forgives a client, a token, a subject or a key: what the policies have counted of it is forgotten in the table, once for all
// threads, and each thread forgets what it holds of a store. Slots of requests under way stay taken.
import type { ForgivenKey } from "../core/rules.ts";
import { createKeyFinder, type NameContext, type NamedKey } from "./named-keys.ts";
import type { PolicyRow } from "./policies.ts";
import type { Forgiven } from "./table/forgiveness.ts";
import { whenFree } from "./table/layout.ts";

export interface ForgivenName {
  /** The policies that have keys of that name, in their order. */
  readonly policies: readonly ForgivenPolicy[];
  /** Whether a client or a whole network was forgiven, because it was counted as one. */
  readonly coarse: boolean;
  /** The policies that forget nothing, and why. */
  readonly untouched: readonly { readonly policy: string; readonly why: string }[];
}

interface ForgivenPolicy {
  readonly policy: string;
  /** How many keys had counted something. */
  readonly keys: number;
  readonly units: number;
  readonly coarse: Forgiven["coarse"];
  /** Which requests of that name are not forgiven, and why; null: there are none. */
  readonly gap: string | null;
}

/**
 * Forgets what the table has counted of a name, and what this thread holds of a store. `seq`: the number that the store has
 * given the forgiveness; 0: none. Resolves with null for a name that is none.
 */
export async function forgive(
  rows: readonly PolicyRow[],
  name: ForgivenKey,
  context: NameContext,
  nowMs: () => number,
  seq: number,
): Promise<ForgivenName | null> {
  const find = createKeyFinder(name, context);
  if (find === null) return null;
  const policies: ForgivenPolicy[] = [];
  const untouched: { policy: string; why: string }[] = [];
  for (const row of rows) {
    const policy = row.policy.name;
    const { keys, gap } = find(row);
    if (row.policy.rate.kind === "concurrency") untouched.push({ policy, why: "slots in use stay in use" });
    else if (keys.length === 0) untouched.push({ policy, why: gap ?? "it has no key for it" });
    else policies.push(await forgiveKeys(row, keys, gap, nowMs, seq));
  }
  return { policies, coarse: policies.some(({ coarse }) => coarse !== null), untouched };
}

/** Forgets what this thread alone holds of a name, where another thread has forgotten what the table has counted. */
export function forgiveHeld(
  rows: readonly PolicyRow[],
  name: ForgivenKey,
  context: NameContext,
  nowMs: number,
  seq: number,
): void {
  const find = createKeyFinder(name, context);
  if (find === null) return;
  for (const row of rows) {
    if (row.inStore === null) continue;
    for (const { key, client } of find(row).keys) row.inStore.forgiveHeld(key, client, nowMs, seq);
  }
}

async function forgiveKeys(
  row: PolicyRow,
  named: readonly NamedKey[],
  gap: string | null,
  nowMs: () => number,
  seq: number,
): Promise<ForgivenPolicy> {
  let [keys, units] = [0, 0];
  let coarse: Forgiven["coarse"] = null;
  for (const { key, client } of named) {
    const forgiven = await whenFree(() => {
      const forgotten = row.local.forgive(key, client, nowMs());
      row.inStore?.forgiveHeld(key, client, nowMs(), seq);
      return forgotten;
    });
    keys += forgiven.keys;
    units += forgiven.units;
    // The network is the larger one.
    if (forgiven.coarse !== null && coarse !== "network") coarse = forgiven.coarse;
  }
  return { policy: row.policy.name, keys, units, coarse, gap };
}
