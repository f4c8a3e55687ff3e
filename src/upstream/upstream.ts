// The upstream as the rest of the gateway has it: its addresses, a pool of connections to them for requests and one
// connection for each tunnel, all opened in the same way, and closed together.
import type { SecureContext } from "node:tls";
import type { Watched } from "../core/file-group.ts";
import type { TunnelEnd } from "../core/tunnel-end.ts";
import {
  type AddressFigures,
  type UpstreamErrorReason,
  type UpstreamSettings,
  upstreamTargets,
} from "../core/upstream.ts";
import type { EndpointEvents } from "./endpoint.ts";
import { Endpoints } from "./endpoints.ts";
import { HealthCheck } from "./health-check.ts";
import { NameLookup, type NameOptions } from "./name-lookup.ts";
import { Tunnels } from "./tunnels.ts";
import { UpstreamConnections } from "./upstream-connections.ts";
import { UpstreamTls } from "./upstream-tls.ts";

export interface Upstream {
  readonly connections: UpstreamConnections;
  readonly tunnels: Tunnels;
  addresses(): AddressFigures;
  /** The addresses are asked no more how they are. */
  stopChecking(): void;
  /** Closes the idle connections and breaks the others. */
  close(): void;
}

export interface UpstreamOptions {
  readonly maxTunnels: number;
  readonly idleTimeoutMs: number;
  readonly nowMs: () => number;
  readonly onEnd: (end: TunnelEnd) => void;
  readonly names: NameOptions;
  /** Null: the upstream's URL is plain http. */
  readonly tlsFiles: Watched<SecureContext> | null;
}

export interface UpstreamEvents extends EndpointEvents {
  readonly onLookupFailed: (name: string, error: Error, isKnown: boolean) => void;
  readonly onLookupRecovered: (name: string) => void;
}

/** Connects to nobody yet; waits for names to be looked up, though no longer than for a connection. */
export async function openUpstream(
  settings: UpstreamSettings,
  options: UpstreamOptions,
  events: UpstreamEvents,
): Promise<Upstream> {
  const { host, targets } = upstreamTargets(settings);
  const { connectTimeoutMs, responseTimeoutMs } = settings;
  const tls = options.tlsFiles === null ? null : new UpstreamTls(settings.tls, host, options.tlsFiles);
  const counted = counting(events);
  const endpoints = new Endpoints({
    tls,
    connectTimeoutMs,
    nowMs: options.nowMs,
    ...counted.events,
  });
  const connections = new UpstreamConnections({ ...settings, endpoints });
  const tunnels = new Tunnels({ ...options, endpoints, responseTimeoutMs });
  const names = new NameLookup({
    ...options.names,
    targets,
    onAddresses: (addresses) => endpoints.set(addresses),
    onFailed: events.onLookupFailed,
    onRecovered: events.onLookupRecovered,
  });
  await withinMs(names.start(), connectTimeoutMs);
  const { path, ...times } = settings.healthCheck;
  const urlHost = new URL(settings.url).host;
  const { nowMs } = options;
  const check =
    path === null
      ? null
      : new HealthCheck({ ...times, path, host: urlHost, tls, nowMs, endpoints: () => endpoints.all });
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
    stopChecking: () => check?.close(),
    close() {
      check?.close();
      names.close();
      tls?.close();
      tunnels.close();
      connections.close();
    },
  };
}

/** The same events, with figures that count what is to be counted of them. */
function counting({ onFailover, onEjected, onRestored, onUnhealthy, onHealthy }: EndpointEvents) {
  const failovers = new Map<UpstreamErrorReason, number>();
  const figures = { ejections: 0, failovers };
  const events: EndpointEvents = {
    onFailover(address, reason, ...failover) {
      failovers.set(reason, (failovers.get(reason) ?? 0) + 1);
      onFailover(address, reason, ...failover);
    },
    onEjected(...ejection) {
      figures.ejections += 1;
      onEjected(...ejection);
    },
    onRestored,
    onUnhealthy(...fault) {
      figures.ejections += 1;
      onUnhealthy(...fault);
    },
    onHealthy,
  };
  return { events, figures };
}

async function withinMs(done: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([done, late]);
  clearTimeout(timer);
}
