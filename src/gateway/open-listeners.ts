// Makes the listeners of one thread: the one for traffic with the transports of its connections, and those for checks of an
// ingress.
import type { PeerConnections } from "../core/client-address.ts";
import { closeMs } from "../core/http-bounds.ts";
import type { HostPort } from "../core/ip-address.ts";
import type { Replaceable, Settings, TrafficSettings } from "../core/settings.ts";
import type { RuntimeRef } from "../exchange/exchange.ts";
import { openSharedReads } from "../exchange/prove-sockets.ts";
import type { TextWrites } from "../exchange/socket-writes.ts";
import type { SharedReads } from "../exchange/sockets.ts";
import { Checks } from "../ext-auth/check.ts";
import type { CheckSettings } from "../ext-auth/trusted-callers.ts";
import { type ConnectionCount, ConnectionTable } from "../listener/connection-table.ts";
import { TrafficListener } from "../listener/traffic-listener.ts";
import { createErrorLog, type Logger } from "../telemetry/log.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { TransportOptions } from "../transport/transport-options.ts";
import { Transports } from "../transport/transports.ts";
import type { ThreadContext } from "./thread-context.ts";

/** `reads` is null if connections are read as streams. */
export async function createTraffic(
  { settings: { current: inForce }, telemetry, clock, textWrites }: ThreadContext,
  { runtime, traffic: settings }: { readonly runtime: RuntimeRef; readonly traffic: Replaceable<TrafficSettings> },
  reads: SharedReads | null,
  count: ConnectionCount,
  peers: PeerConnections,
  http2CloseMs = closeMs,
): Promise<TrafficListener> {
  const { metrics } = telemetry;
  const nowMs = clock.monotonicMs;
  const connections = new ConnectionTable(settings, count, nowMs, telemetry.shareExceeded);
  const options: TransportOptions = {
    ...{ runtime, settings, reads, textWrites },
    http2: { closeMs: http2CloseMs, onClosed: telemetry.http2Closed, onReset: metrics.http2Reset },
  };
  const tls = settings.current.tls === null ? null : await openTls(options, telemetry);
  const transports = new Transports(options, connections, tls?.openHttp2);
  return new TrafficListener(
    {
      proxyProtocol: inForce.listen.proxyProtocol,
      ...{ settings, count, peers, nowMs },
      onProxyHeaderRefused: metrics.proxyHeaderRefused,
      onConnectionShed: telemetry.connectionShed,
      handshakes: tls?.handshakes ?? null,
      onFailure: runtime.current.onFailure,
    },
    connections,
    transports,
  );
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

/** What had not ended when the drain's timeout was over. */
export interface BrokenOff {
  readonly requests: number;
  /** Of ingresses. */
  readonly calls: number;
}

export type ListenSettings = Pick<Settings, "listen" | "extAuth">;

/** Where the listeners are. */
export interface Addresses {
  readonly traffic: HostPort;
  /** Null: no checks over HTTP. */
  readonly extAuth: HostPort | null;
  /** Null: no checks over gRPC. */
  readonly grpc: HostPort | null;
}

/** All configured listeners are open. */
export interface CheckListeners {
  readonly http: HostPort | null;
  readonly grpc: HostPort | null;
  /** Makes the health check of gRPC report that the gateway is ready. */
  announceStart(): void;
  announceEnd(): void;
  /** Resolves with the number of calls that were broken off. */
  drain(timeoutMs: number): Promise<number>;
}

/** What a reload replaces. */
export interface CheckRefs {
  readonly runtime: RuntimeRef;
  readonly quotaRuntime: RuntimeRef;
  readonly settings: Replaceable<CheckSettings>;
}

/**
 * Null if the settings have no listener for checks, and so `refs` is null. `isShared`: other threads open the same
 * ports. Rejects with a ListenError, with all listeners closed.
 */
export async function openChecks(
  { extAuth }: { readonly extAuth: Settings["extAuth"] },
  refs: CheckRefs | null,
  { clock, telemetry, log, textWrites, readiness }: ThreadContext,
  reads: SharedReads | null,
  isShared: boolean,
): Promise<CheckListeners | null> {
  const { http: httpSettings, grpc: grpcSettings } = extAuth;
  if (refs === null) return null;
  const common = {
    isPortShared: isShared,
    reads,
    textWrites,
    readiness,
    settings: refs.settings,
    checks: new Checks(refs),
    nowMs: clock.monotonicMs,
    onRefused: telemetry.checkRefused,
    onHttp2Closed: telemetry.http2Closed,
    onHttp2Reset: telemetry.metrics.http2Reset,
    onFailure: createErrorLog(log),
  };
  // Imported only if they are configured, because a start without them is faster.
  const http =
    httpSettings &&
    (await import("../ext-auth/http/http-listener.ts")
      .then(({ startExtAuthHttp }) => startExtAuthHttp({ ...httpSettings, ...common }))
      .catch((error) => {
        throw new ListenError("ext-auth", httpSettings, error);
      }));
  const grpc =
    grpcSettings &&
    (await import("../ext-auth/grpc/start.ts")
      .then(({ startExtAuthGrpc }) => startExtAuthGrpc({ ...grpcSettings, ...common }))
      .catch(async (error) => {
        await http?.drain(0);
        throw new ListenError("grpc", grpcSettings, error);
      }));
  return {
    http: addressOf(http),
    grpc: addressOf(grpc),
    announceStart() {
      grpc?.setServing(true);
    },
    announceEnd() {
      http?.announceEnd();
      grpc?.setServing(false);
    },
    async drain(timeoutMs) {
      const [calls = 0] = await Promise.all([grpc?.drain(timeoutMs), http?.drain(timeoutMs)]);
      refs.runtime.waiting.abortAll();
      refs.quotaRuntime.waiting.abortAll();
      return calls;
    },
  };
}

function addressOf(listener: HostPort | null): HostPort | null {
  return listener === null ? null : { host: listener.host, port: listener.port };
}

export type ListenerName = "traffic" | "admin" | "ext-auth" | "grpc";

/** The system's error is the cause. */
export class ListenError extends Error {
  readonly listener: ListenerName;
  readonly address: HostPort;

  constructor(listener: ListenerName, { host, port }: HostPort, cause: unknown) {
    super(`The ${listener} listener cannot be opened.`, { cause });
    this.listener = listener;
    this.address = { host, port };
  }
}

/** Resolves with null if connections have to be read as streams. Sets how `textWrites` writes. `prove` never rejects. */
export async function chooseReads(
  log: Logger,
  textWrites: TextWrites,
  prove = openSharedReads,
): Promise<SharedReads | null> {
  const proven = await prove();
  if (proven.reads === null) log.warn({ reason: proven.reason }, "connections are read as streams");
  else textWrites.useHandles(proven.textHandles);
  return proven.reads;
}
