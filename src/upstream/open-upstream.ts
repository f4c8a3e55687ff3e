// Opens the upstream: its addresses, the connection pool for requests, the tunnels, and the health check.
import { setTimeout as sleep } from "node:timers/promises";
import type { SecureContext } from "node:tls";
import type { Watched } from "../core/file-group.ts";
import {
  type AddressFigures,
  type AddressState,
  type EndpointEvents,
  type UpstreamErrorReason,
  type UpstreamEvents,
  type UpstreamSettings,
  upstreamHostOf,
  upstreamTargets,
} from "../core/upstream.ts";
import type { TextWrites } from "../exchange/socket-writes.ts";
import { Endpoints } from "./endpoints.ts";
import { HealthCheck } from "./health-check.ts";
import { NameLookup, type NameOptions } from "./name-lookup.ts";
import { type TunnelSettings, Tunnels } from "./tunnels.ts";
import { UpstreamConnections } from "./upstream-connections.ts";
import type { UpstreamTls } from "./upstream-tls.ts";

export interface Upstream {
  readonly connections: UpstreamConnections;
  readonly tunnels: Tunnels;
  addresses(): AddressFigures;
  addressStates(): AddressState[];
  /** Stops the health checks. */
  stopChecking(): void;
  /**
   * A reload has replaced this upstream: closes what is idle, and from now on each connection after its request. Requests
   * that have begun under the old configuration may still come.
   */
  retire(): void;
  /** No request, connection or tunnel is left. */
  isUnused(): boolean;
  /** Closes all connections, those with a request too. */
  close(): void;
}

interface UpstreamOptions extends TunnelSettings {
  readonly names: NameOptions;
  readonly textWrites: TextWrites;
  /** Null: the upstream's URL is plain http. */
  readonly tlsFiles: Watched<SecureContext> | null;
}

/** Imports TLS only if it is needed, because a start without it is faster. */
async function openTls(
  { tls }: UpstreamSettings,
  host: string,
  files: NonNullable<UpstreamOptions["tlsFiles"]>,
): Promise<UpstreamTls> {
  const { UpstreamTls } = await import("./upstream-tls.ts");
  return new UpstreamTls(tls, host, files);
}

/** Waits for the names to be looked up, at most the connect timeout, and opens no connection. */
export async function openUpstream(
  settings: UpstreamSettings,
  options: UpstreamOptions,
  events: UpstreamEvents,
): Promise<Upstream> {
  const { host, targets } = upstreamTargets(settings.url, settings.addresses);
  const { connectTimeoutMs } = settings;
  const { nowMs } = options;
  const tls = options.tlsFiles === null ? null : await openTls(settings, host, options.tlsFiles);
  const counted = counting(events);
  const endpoints = new Endpoints({ ...settings, ...options, ...counted.events, tls });
  const connections = new UpstreamConnections({ ...settings, ...options, endpoints });
  const tunnels = new Tunnels({ ...options, endpoints });
  const names = new NameLookup({
    ...options.names,
    targets,
    ...events,
    onAddresses: (addresses) => endpoints.set(addresses),
  });
  await Promise.race([names.start(), sleep(connectTimeoutMs, undefined, { ref: false })]);
  const { path, ...times } = settings.healthCheck;
  const { upstreamHost } = upstreamHostOf(settings.url, settings.hostHeader);
  const check = path === null ? null : new HealthCheck({ ...times, path, host: upstreamHost, tls, nowMs, endpoints });
  return {
    connections,
    tunnels,
    addresses() {
      const ejected = endpoints.all.filter(({ isEjected }) => isEjected).length;
      const { failures, isCurrent } = names.figures();
      return {
        available: endpoints.all.length - ejected,
        ejected,
        ...counted.figures,
        failedLookups: failures,
        areCurrent: isCurrent,
      };
    },
    addressStates: () =>
      endpoints.all.map(({ name: address, ejectedFor, pending: active }) => ({ address, ejectedFor, active })),
    stopChecking: () => check?.close(),
    retire() {
      check?.close();
      names.close();
      tls?.close();
      endpoints.retire();
    },
    isUnused() {
      const { active, idle, waiting } = connections.figures();
      const { opening, open } = tunnels.figures();
      return active + idle + waiting + opening + open === 0;
    },
    close() {
      check?.close();
      names.close();
      tls?.close();
      tunnels.close();
      connections.close();
    },
  };
}

/** The events of `inner`, and figures that count them. */
function counting(inner: EndpointEvents) {
  const failovers = new Map<UpstreamErrorReason, number>();
  const figures = { ejections: 0, failovers };
  const events: EndpointEvents = {
    ...inner,
    onFailover(address, reason, ...failover) {
      failovers.set(reason, (failovers.get(reason) ?? 0) + 1);
      inner.onFailover(address, reason, ...failover);
    },
    onEjected(...ejection) {
      figures.ejections += 1;
      inner.onEjected(...ejection);
    },
    onUnhealthy(...fault) {
      figures.ejections += 1;
      inner.onUnhealthy(...fault);
    },
  };
  return { events, figures };
}
