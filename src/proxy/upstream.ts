// The upstream as the rest of the gateway has it: a pool of connections for requests and one connection for each tunnel,
// all opened in the same way, and closed together.
import type { TunnelEnd } from "../core/tunnel-end.ts";
import { type UpstreamSettings, upstreamEndpoint } from "../core/upstream.ts";
import { createConnector } from "./connector.ts";
import { Tunnels } from "./tunnels.ts";
import { UpstreamConnections } from "./upstream-connections.ts";
import { UpstreamTls, type UpstreamTlsEvents } from "./upstream-tls.ts";

export interface Upstream {
  readonly connections: UpstreamConnections;
  readonly tunnels: Tunnels;
  /** Closes the idle connections and breaks the others. */
  close(): void;
}

export interface TunnelSettings {
  readonly maxTunnels: number;
  readonly idleTimeoutMs: number;
  readonly nowMs: () => number;
  readonly onEnd: (end: TunnelEnd) => void;
}

/** Connects to nobody yet. Rejects with a TlsFilesProblem if the files for TLS cannot be used. */
export async function openUpstream(
  settings: UpstreamSettings,
  upgrade: TunnelSettings,
  events: UpstreamTlsEvents,
): Promise<Upstream> {
  const { host, port, isTls } = upstreamEndpoint(settings.url);
  const tls = isTls ? await UpstreamTls.open(settings.tls, host, events) : null;
  const target = { host, port, tls, timeoutMs: settings.connectTimeoutMs };
  const connections = new UpstreamConnections({ ...settings, connect: createConnector(target) });
  const tunnels = new Tunnels({
    ...upgrade,
    responseTimeoutMs: settings.responseTimeoutMs,
    connect: createConnector({ ...target, allowHalfOpen: true }),
  });
  return {
    connections,
    tunnels,
    close() {
      tls?.close();
      tunnels.close();
      connections.close();
    },
  };
}
