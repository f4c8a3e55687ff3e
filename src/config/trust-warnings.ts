// Finds settings by which anyone can choose who is charged: trusted networks as wide as the internet, PROXY headers from
// whoever reaches the port, an IPv6 prefix longer than that of a household.
import { parseIpAddress } from "../core/ip-address.ts";
import { isLoopback } from "./addresses.ts";
import type { WarnedSettings } from "./warned-settings.ts";
import { privateNetworks, wideShare } from "./wide-networks.ts";

/** Providers give each household or server at least a network of this size (RFC 6177). */
const widestPrefix = 64;

export function trustWarnings({ clientAddress, listen, extAuth }: WarnedSettings): readonly string[] {
  const proxies = wideShare(clientAddress.trustedProxies);
  const callers = extAuth?.http || extAuth?.grpc ? wideShare(extAuth.trustedCallers) : null;
  const found: string[] = [];
  if (proxies !== null) {
    const what = "clients there can choose who is charged; list only the addresses of your proxies";
    found.push(`clientAddress.trustedProxies contains ${proxies}: ${what}`);
  }
  if (callers !== null) {
    const what = "anyone there can spend the quota of any client; list only the addresses of your ingresses";
    found.push(`extAuth.trustedCallers contains ${callers}: ${what}`);
  }
  if (clientAddress.ipv6Prefix > widestPrefix) {
    const what = `a client has a whole /${widestPrefix} as a rule, so it can take a new quota for each address in it`;
    found.push(`clientAddress.ipv6Prefix is ${clientAddress.ipv6Prefix}: ${what}; set it to ${widestPrefix} or less`);
  }
  if (clientAddress.header === "forwarded" && clientAddress.trustedProxies.length === 0) {
    const what = "no header is read, because nobody is trusted to write it; list your proxies in trustedProxies";
    found.push(`clientAddress.header is forwarded: ${what}`);
  }
  if (listen?.proxyProtocol && !isPrivate(listen.host)) {
    const what = "can choose who is charged; let only the load balancer reach it, or listen on a private address";
    found.push(`listen.proxyProtocol is true: whoever reaches port ${listen.port} of ${listen.host} ${what}`);
  }
  return found;
}

function isPrivate(host: string): boolean {
  const address = parseIpAddress(host);
  return isLoopback(host) || (address !== undefined && privateNetworks.has(address));
}
