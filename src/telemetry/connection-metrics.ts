// The metrics of connections on both sides and of the upstream's addresses. All are read at the scrape.
import type { Registry } from "prom-client";
import {
  type AddressFigures,
  type ConnectionFigures,
  type TunnelFigures,
  type UpstreamHealth,
  upstreamErrorReasons,
} from "../core/upstream.ts";
import { counterFamily, gauge } from "./series.ts";

export interface ConnectionSources {
  readonly upstreamConnections: () => ConnectionFigures;
  readonly upstreamHealth: () => UpstreamHealth;
  readonly tunnels: () => TunnelFigures;
  readonly upstreamAddresses: () => AddressFigures;
  /** Open connections of clients. */
  readonly clientConnections: () => number;
}

export function connectionMetrics(registry: Registry, sources: ConnectionSources): void {
  gauge(registry, "headgate_client_connections", "Open connections of clients.", [], (set) =>
    set({}, sources.clientConnections()),
  );
  const connections = "Connections to the upstream, active or idle, and requests waiting for one.";
  gauge(registry, "headgate_upstream_connections", connections, ["state"], (set) => {
    const { active, idle, waiting } = sources.upstreamConnections();
    set({ state: "active" }, active);
    set({ state: "idle" }, idle);
    set({ state: "waiting" }, waiting);
  });
  const tunnels = "Connections that left HTTP by an Upgrade, and upgrades the upstream is being asked for.";
  gauge(registry, "headgate_tunnels", tunnels, ["state"], (set) => {
    const { opening, open } = sources.tunnels();
    set({ state: "opening" }, opening);
    set({ state: "open" }, open);
  });
  const state = "1 for the state the last attempt to reach the upstream showed, 0 for the others.";
  gauge(registry, "headgate_upstream_state", state, ["state"], (set) => {
    const now = sources.upstreamHealth().state;
    for (const state of ["unknown", "up", "down"]) set({ state }, state === now ? 1 : 0);
  });
  addressMetrics(registry, sources.upstreamAddresses);
}

function addressMetrics(registry: Registry, addresses: () => AddressFigures): void {
  const help = "Addresses of the upstream: available, or ejected because connections to them failed.";
  gauge(registry, "headgate_upstream_addresses", help, ["state"], (set) => {
    const { available, ejected } = addresses();
    set({ state: "available" }, available);
    set({ state: "ejected" }, ejected);
  });
  const failovers = "Requests another address was tried for, since the first could not be connected to, by its reason.";
  const failedOver = counterFamily(registry, "headgate_upstream_failovers_total", failovers, ["reason"], () => {
    for (const [reason, series] of failoverSeries) series.value = addresses().failovers.get(reason) ?? 0;
  });
  const failoverSeries = upstreamErrorReasons.map((reason) => [reason, failedOver.series({ reason })] as const);
  const ejections = "Times an address of the upstream was ejected.";
  const ejected = counterFamily(registry, "headgate_upstream_ejections_total", ejections, [], () => {
    ejectedSeries.value = addresses().ejections;
  });
  const ejectedSeries = ejected.series({});
  const lookups = "Lookups of the upstream's names that failed.";
  const failed = counterFamily(registry, "headgate_upstream_lookups_failed_total", lookups, [], () => {
    failedSeries.value = addresses().failedLookups;
  });
  const failedSeries = failed.series({});
  const current = "1 while every name of the upstream could be looked up last time.";
  gauge(registry, "headgate_upstream_names_current", current, [], (set) => set({}, addresses().areCurrent ? 1 : 0));
}
