// Finds the smallest of many networks that contains an address or another network, in few comparisons.
import { type Cidr, isWithin } from "../core/ip-address.ts";
import { byFirstAddress, lastNotAfter, withFirstAddress } from "../core/network-set.ts";

interface Entry<T> extends Cidr {
  readonly value: T;
  /** The smallest network that contains this one; null if none does. */
  readonly parent: Entry<T> | null;
}

export class NetworkMap<T> {
  /** Sorted by their first address; of two that begin with the same one, the larger comes first. */
  readonly #entries: readonly Entry<T>[];

  /** Of two values for one network, the first counts. */
  constructor(networks: readonly (readonly [Cidr, T])[]) {
    const entries: Entry<T>[] = [];
    const sorted = networks
      .map(([cidr, value]) => ({ ...withFirstAddress(cidr), value }))
      .sort(byFirstAddress)
      .filter((entry, i, all) => i === 0 || byFirstAddress(all[i - 1] ?? entry, entry) !== 0);
    for (const entry of sorted) {
      let parent = entries.at(-1) ?? null;
      while (parent !== null && !isWithin(entry.network, parent)) parent = parent.parent;
      entries.push({ ...entry, parent });
    }
    this.#entries = entries;
  }

  get size(): number {
    return this.#entries.length;
  }

  /** Returns the value of the smallest network that contains all of this one; undefined if none does. */
  get({ network, prefixBits }: Cidr): T | undefined {
    // If the last network that does not begin later does not contain the address, only those around it can. They have
    // different prefixes, so there are at most 128.
    let entry = lastNotAfter(this.#entries, network) ?? null;
    while (entry !== null && (entry.prefixBits > prefixBits || !isWithin(network, entry))) entry = entry.parent;
    return entry?.value;
  }
}
