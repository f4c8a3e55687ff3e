// Makes the rules about requests from the settings: the trusted proxies, the routes and the base paths.
import { networkOf } from "../config/addresses.ts";
import type { ClientAddressRules } from "../core/client-address.ts";
import { AllowedOrigins } from "../core/cors.ts";
import { NetworkSet } from "../core/network-set.ts";
import type { RequestRules } from "../core/request-head.ts";
import { createPathReader } from "../core/request-path.ts";
import type { Settings } from "../core/settings.ts";

export function clientAddressRules({ clientAddress }: Pick<Settings, "clientAddress">): ClientAddressRules {
  const { header, trustedProxies, ipv6Prefix } = clientAddress;
  return { header, trustedProxies: new NetworkSet(trustedProxies.map(networkOf)), ipv6Prefix };
}

export interface RequestSettings extends Pick<Settings, "routes" | "basePath" | "maxBodyBytes" | "cors"> {
  readonly unmatched: RequestRules["unmatched"];
  readonly upstream: Pick<Settings["upstream"], "url">;
}

export function requestRules(settings: RequestSettings, clientAddress: ClientAddressRules): RequestRules {
  const upstreamPath = new URL(settings.upstream.url).pathname;
  return {
    clientAddress,
    pathReader: createPathReader(settings.routes, settings.basePath),
    unmatched: settings.unmatched,
    maxBodyBytes: settings.maxBodyBytes,
    cors: settings.cors.origins.length === 0 ? null : new AllowedOrigins(settings.cors.origins),
    paths: { own: settings.basePath, upstream: upstreamPath === "/" ? "/" : upstreamPath.replace(/\/$/, "") },
  };
}
