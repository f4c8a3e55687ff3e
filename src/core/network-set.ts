// A set of networks that finds an address in logarithmic time. A forwarding header can contain many addresses, and each
// is looked up. And a map of networks, which finds the value of the smallest one.
import { type Cidr, type IpAddress, isWithin } from "./ip-address.ts";

export class NetworkSet {
  /** Sorted by their first address, without overlaps: of two that overlap, one contains the other and is kept. */
  readonly #networks: readonly Cidr[];

  constructor(networks: readonly Cidr[]) {
    const widest: Cidr[] = [];
    for (const cidr of networks.map(withFirstAddress).sort(byFirstAddress)) {
      const last = widest.at(-1);
      if (last === undefined || !isWithin(cidr.network, last)) widest.push(cidr);
    }
    this.#networks = widest;
  }

  has(address: IpAddress): boolean {
    const last = lastNotAfter(this.#networks, address);
    return last !== undefined && isWithin(address, last);
  }

  /** Returns the share of the region's addresses that are in the set, from 0 to 1. */
  shareOf(region: Cidr): number {
    return this.#networks.reduce((sum, each) => sum + shareOf(region, each), 0);
  }
}

function shareOf(region: Cidr, part: Cidr): number {
  if (part.prefixBits <= region.prefixBits) return isWithin(region.network, part) ? 1 : 0;
  return isWithin(part.network, region) ? 2 ** (region.prefixBits - part.prefixBits) : 0;
}

/** Returns the network with the bits behind its prefix set to 0. */
export function withFirstAddress({ network, prefixBits }: Cidr): Cidr {
  return { network: firstAddress(network, prefixBits), prefixBits };
}

/** Among networks with the same first address, the widest comes first. */
function byFirstAddress(a: Cidr, b: Cidr): number {
  return compare(a.network, b.network) || a.prefixBits - b.prefixBits;
}

/** Returns the last of the sorted networks that does not begin after the address. */
function lastNotAfter<N extends Cidr>(networks: readonly N[], address: IpAddress): N | undefined {
  let low = 0;
  let high = networks.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const candidate = networks[middle];
    if (candidate !== undefined && compare(candidate.network, address) <= 0) low = middle + 1;
    else high = middle;
  }
  return networks[low - 1];
}

function firstAddress(address: IpAddress, prefixBits: number): IpAddress {
  return address.map((group, i) => {
    const bits = Math.min(16, Math.max(0, prefixBits - i * 16));
    return group & (0xffff << (16 - bits)) & 0xffff;
  });
}

function compare(a: IpAddress, b: IpAddress): number {
  for (let i = 0; i < 8; i += 1) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

interface NestedNetwork<T> extends Cidr {
  readonly value: T;
  /** The smallest network that contains this one; null if none does. */
  readonly parent: NestedNetwork<T> | null;
}

/** Finds the smallest of many networks that contains an address or another network, in few comparisons. */
export class NetworkMap<T> {
  /** Sorted by their first address; of two that begin with the same one, the larger comes first. */
  readonly #entries: readonly NestedNetwork<T>[];

  /** Of two values for one network, the first counts. */
  constructor(networks: readonly (readonly [Cidr, T])[]) {
    const entries: NestedNetwork<T>[] = [];
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
