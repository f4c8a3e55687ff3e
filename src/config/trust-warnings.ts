// Finds trust that lets anyone choose who is charged: networks of proxies or callers that are as wide as the internet, and
// PROXY headers from whoever reaches the port.
import { parseIpAddress } from "../core/ip-address.ts";
import { isLoopback } from "./addresses.ts";
import type { WarnedSettings } from "./warned-settings.ts";
import { privateNetworks, wideShare } from "./wide-networks.ts";

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
