// Parses the networks of validated settings.
import { coversIpv4, parseCidr } from "../core/ip-address.ts";
import { NetworkSet } from "../core/network-set.ts";

/** Calls `onAnyIpv4` for a network that contains every IPv4 address, which is rarely meant. */
export function parseNetworks(texts: readonly string[], onAnyIpv4: (text: string) => void): NetworkSet {
  const networks = texts.map((text) => {
    const cidr = parseCidr(text);
    if (cidr === undefined) throw new Error("a setting is neither an address nor a network");
    if (coversIpv4(cidr)) onAnyIpv4(text);
    return cidr;
  });
  return new NetworkSet(networks);
}
