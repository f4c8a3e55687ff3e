// What the checks of policies need of the configuration, and what they say of the networks in it.
import { type Cidr, isIpv4 } from "../core/ip-address.ts";
import type { ParsedConfig } from "./schema.ts";

export interface PoliciesInContext extends Pick<ParsedConfig, "policies" | "auth" | "clientAddress" | "routes"> {
  readonly basePath: string;
}

export type WrittenPolicy = ParsedConfig["policies"][number];

/** Whether the network is only a part of what counts as one client. */
export function isNarrower({ network, prefixBits }: Cidr, ipv6Prefix: number): boolean {
  return !isIpv4(network) && prefixBits > ipv6Prefix;
}

/** What is expected in place of a narrower network. */
export function wideEnough(ipv6Prefix: number): string {
  return (
    `at most /${ipv6Prefix}, because clientAddress.ipv6Prefix makes it one client; ` +
    "name the whole network, or raise clientAddress.ipv6Prefix"
  );
}
