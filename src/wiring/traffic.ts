// Makes the traffic listener and the transports of its connections.
import type { ClientAddressRules } from "../core/client-address.ts";
import type { Clock } from "../core/clock.ts";
import type { ConnectionCount, PeerConnections } from "../core/connection-count.ts";
import type { Watched } from "../core/file-group.ts";
import type { Settings } from "../core/settings.ts";
import { shareOf } from "../core/thread-share.ts";
import type { Certificate } from "../core/tls.ts";
import type { Replaceable, TrafficSettings } from "../core/traffic-settings.ts";
import type { RuntimeRef } from "../exchange/exchange.ts";
import type { SharedReads } from "../exchange/shared-reads.ts";
import type { TextWrites } from "../exchange/text-writes.ts";
import { ConnectionTable } from "../listener/connection-table.ts";
import { TrafficListener } from "../listener/traffic-listener.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { TransportOptions } from "../transport/transport-options.ts";
import { Transports } from "../transport/transports.ts";

export interface TrafficParts {
  readonly proxyProtocol: boolean;
  readonly runtime: RuntimeRef;
  readonly settings: Replaceable<TrafficSettings>;
  readonly telemetry: Telemetry;
  readonly clock: Clock;
  readonly http2LingerMs: number;
  readonly connectionCount: ConnectionCount;
  readonly peerConnections: PeerConnections;
  readonly reads: SharedReads | null;
  readonly textWrites: TextWrites;
}

export async function createTraffic(parts: TrafficParts): Promise<TrafficListener> {
  const { proxyProtocol, runtime, settings, telemetry, clock, http2LingerMs: lingerMs } = parts;
  const { metrics } = telemetry;
  const connections = new ConnectionTable(settings, parts.connectionCount, clock.monotonicMs, telemetry.shareExceeded);
  const options: TransportOptions = {
    runtime,
    settings,
    isDraining: () => listener.isDraining,
    reads: parts.reads,
    textWrites: parts.textWrites,
    http2: { lingerMs, onClosed: telemetry.http2Closed, onReset: metrics.http2Reset },
  };
  const tls = settings.current.tls === null ? null : await openTls(options, telemetry);
  const transports = new Transports(options, connections, tls?.openHttp2);
  const listener: TrafficListener = new TrafficListener(
    {
      proxyProtocol,
      settings,
      onProxyHeaderRefused: metrics.proxyHeaderRefused,
      onConnectionShed: telemetry.connectionShed,
      handshakes: tls?.handshakes ?? null,
      count: parts.connectionCount,
      peers: parts.peerConnections,
      nowMs: clock.monotonicMs,
      onFailure: runtime.current.onFailure,
    },
    connections,
    transports,
  );
  return listener;
}

/** Imports TLS and HTTP/2 only if they are configured, because a start without them is faster. */
async function openTls(options: TransportOptions, { tlsFailed: onFailure }: Telemetry) {
  const [{ TlsHandshakes }, { http2Opener }] = await Promise.all([
    import("../listener/tls-handshakes.ts"),
    import("../transport/http2/http2-connection.ts"),
  ]);
  const { settings } = options;
  return { handshakes: new TlsHandshakes({ settings, onFailure }), openHttp2: http2Opener(options) };
}

/** `certificate` is null if connections are plain. */
export function trafficSettings(
  settings: Settings,
  clientAddress: ClientAddressRules,
  certificate: Watched<Certificate> | null,
  ticketSecret: Uint8Array | null,
): TrafficSettings {
  const { listen, timeouts, upgrade, workers } = settings;
  const { maxConnections, maxConnectionsPerPeer, newConnectionsPerPeer } = listen;
  const share = (bound: number): number => shareOf(bound, workers);
  return {
    bounds: listen,
    newConnections: {
      burst: share(maxConnectionsPerPeer + newConnectionsPerPeer),
      perSecond: share(newConnectionsPerPeer),
    },
    streams: { max: share(maxConnections), maxPerPeer: share(maxConnectionsPerPeer) },
    headTimeoutMs: timeouts.headMs,
    keepAliveTimeoutMs: timeouts.keepAliveMs,
    stallTimeoutMs: stallTimeoutMs(settings),
    upgradeProtocols: new Set(upgrade.protocols),
    clientAddress,
    tls: certificate === null ? null : { certificate, ticketSecret, http2: listen.tls?.http2 ?? true },
  };
}

/** Exceeds each wait that has its own timeout (for a connection, for the upstream, for the client's body). */
function stallTimeoutMs({ timeouts, upstream }: Settings): number {
  return timeouts.bodyMs + 2 * upstream.connectTimeoutMs + upstream.responseTimeoutMs;
}
