// A set of networks that finds an address in logarithmic time. A forwarding header can contain many addresses, and each
// is looked up.
import { type Cidr, type IpAddress, isWithin } from "./ip-address.ts";

export class NetworkSet {
  /** Sorted by their first address, without overlaps: of two that overlap, one contains the other and is kept. */
  readonly #networks: readonly Cidr[];

  constructor(networks: readonly Cidr[]) {
    // Among networks with the same first address, the widest comes first.
    const sorted = networks
      .map(({ network, prefixBits }) => ({ network: firstAddress(network, prefixBits), prefixBits }))
      .sort((a, b) => compare(a.network, b.network) || a.prefixBits - b.prefixBits);
    const widest: Cidr[] = [];
    for (const cidr of sorted) {
      const last = widest.at(-1);
      if (last === undefined || !isWithin(cidr.network, last)) widest.push(cidr);
    }
    this.#networks = widest;
  }

  has(address: IpAddress): boolean {
    let low = 0;
    let high = this.#networks.length;
    // Finds the last network that does not begin after the address; no other can contain it.
    while (low < high) {
      const middle = (low + high) >>> 1;
      const candidate = this.#networks[middle];
      if (candidate !== undefined && compare(candidate.network, address) <= 0) low = middle + 1;
      else high = middle;
    }
    const last = this.#networks[low - 1];
    return last !== undefined && isWithin(address, last);
  }
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
