// Makes the traffic listener and the transports of its connections.
import { type ClientAddressRules, readPeer } from "../core/client-address.ts";
import type { Clock } from "../core/clock.ts";
import type { Watched } from "../core/file-group.ts";
import type { Settings } from "../core/settings.ts";
import type { Certificate } from "../core/tls.ts";
import type { RuntimeRef } from "../exchange/exchange.ts";
import { ConnectionTable } from "../listener/connection-table.ts";
import { TrafficListener } from "../listener/traffic-listener.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { Transports } from "../transport/transports.ts";

export interface TrafficParts {
  readonly runtime: RuntimeRef;
  readonly clientAddress: ClientAddressRules;
  /** Null: connections are plain. */
  readonly certificate: Watched<Certificate> | null;
  readonly telemetry: Telemetry;
  readonly clock: Clock;
  readonly http2LingerMs: number;
}

export function createTraffic(settings: Settings, parts: TrafficParts): TrafficListener {
  const { listen, timeouts, upgrade } = settings;
  const { runtime, clientAddress, certificate, telemetry, clock, http2LingerMs: lingerMs } = parts;
  const { metrics } = telemetry;
  const connections = new ConnectionTable(clock.monotonicMs);
  const transports = new Transports(
    {
      runtime,
      headTimeoutMs: timeouts.headMs,
      keepAliveTimeoutMs: timeouts.keepAliveMs,
      stallTimeoutMs: stallTimeoutMs(settings),
      maxRequests: listen.maxRequestsPerConnection,
      upgradeProtocols: new Set(upgrade.protocols),
      isDraining: () => listener.isDraining,
      http2: { bounds: listen, lingerMs, onClosed: telemetry.http2Closed, onReset: metrics.http2Reset },
    },
    connections,
  );
  const tls = certificate === null ? null : { certificate, http2: listen.tls?.http2 ?? true };
  const listener: TrafficListener = new TrafficListener(
    {
      proxyProtocol: listen.proxyProtocol,
      onProxyHeaderRefused: metrics.proxyHeaderRefused,
      bounds: listen,
      onConnectionShed: telemetry.connectionShed,
      nowMs: clock.monotonicMs,
      tls: tls === null ? null : { ...tls, onFailure: telemetry.tlsFailed },
      headTimeoutMs: timeouts.headMs,
      readPeer: (address) => readPeer(address, clientAddress),
      onFailure: runtime.current.onFailure,
    },
    connections,
    transports,
  );
  return listener;
}

/** Exceeds each wait that has its own timeout (for a connection, for the upstream, for the client's body). */
function stallTimeoutMs({ timeouts, upstream }: Settings): number {
  return timeouts.bodyMs + 2 * upstream.connectTimeoutMs + upstream.responseTimeoutMs;
}
