// Finds lists of networks that contain a large part of the internet, in one network or in many.
import { NetworkSet } from "../core/network-set.ts";
import { networkOf } from "./addresses.ts";

/** Four networks of /8: more than all private IPv4 networks together. */
const mostShare = 1 / 64;

const regions = [
  { name: "IPv4", region: networkOf("0.0.0.0/0") },
  // All that is assigned for use on the internet (RFC 4291, 2.4; IANA).
  { name: "global IPv6", region: networkOf("2000::/3") },
];

/** Networks that nobody reaches from the internet (RFC 1918, 6598, 3927, 4193, 4291). */
export const privateNetworks = new NetworkSet(
  ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "fc00::/7", "fe80::/10"].map(
    networkOf,
  ),
);

/** Says how much of the internet is in the networks; null if it is not more than a 64th. */
export function wideShare(networks: readonly string[]): string | null {
  const set = new NetworkSet(networks.map(networkOf));
  for (const { name, region } of regions) {
    const share = set.shareOf(region);
    if (share === 1) return `every ${name} address`;
    if (share > mostShare) return `${Math.floor(100 * share)} % of all ${name} addresses`;
  }
  return null;
}
