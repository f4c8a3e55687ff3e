// Starts the gateway: makes every part from the settings, connects the parts, reloads, and closes all in order. The
// parts do not import each other. pipeline.ts decides about requests.
import { startAdmin } from "./admin/server.ts";
import { FileWatcher } from "./config/watched-files.ts";
import type { Authenticator } from "./core/authenticator.ts";
import { readPeer } from "./core/client-address.ts";
import type { Clock } from "./core/clock.ts";
import type { Health } from "./core/health.ts";
import type { HostPort } from "./core/host-port.ts";
import type { ReloadCause, ReloadResult, SettingsSource } from "./core/reload.ts";
import type { Settings } from "./core/settings.ts";
import { defaultLingerMs } from "./exchange/http2-lifetime.ts";
import type { Logger } from "./telemetry/log.ts";
import { createTelemetry, type Telemetry } from "./telemetry/telemetry.ts";
import type { NameOptions } from "./upstream/name-lookup.ts";
import { WaitingBodies } from "./upstream/waiting-bodies.ts";
import { type ConfigurationBase, configure } from "./wiring/configuration.ts";
import { openExtAuth } from "./wiring/ext-auth.ts";
import { InForce } from "./wiring/in-force.ts";
import { createLimiter } from "./wiring/limiter.ts";
import { ListenError } from "./wiring/listen-error.ts";
import { Reloader } from "./wiring/reloader.ts";
import { createTraffic } from "./wiring/traffic.ts";

export type { ReloadResult } from "./core/reload.ts";
export { ListenError } from "./wiring/listen-error.ts";

export interface GatewayOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** The number of lines that the log's destination has dropped. */
  readonly droppedLogLines: () => number;
  readonly version: string;
  readonly nodeVersion: string;
  /** Default: names of the upstream are resolved by the system. */
  readonly names?: NameOptions;
  /** Default: made from the settings. */
  readonly authenticator?: Authenticator;
  /** How long a client may keep an HTTP/2 connection open after its GOAWAY. Default: 2 s. */
  readonly http2LingerMs?: number;
  /** Loads the settings again. Default: they come from the caller alone. */
  readonly source?: SettingsSource;
  /** How often files are reread, and how long they must not change before they are used. Default: 1 s. */
  readonly rereadMs?: number;
}

export interface Gateway {
  readonly traffic: HostPort;
  readonly admin: HostPort;
  /** Null: no checks over HTTP. */
  readonly extAuth: HostPort | null;
  /** Null: no checks over gRPC. */
  readonly grpc: HostPort | null;
  /**
   * Puts other settings into force, or changes nothing if a file that they name cannot be used. Closes no connection of
   * a client and loses no count.
   */
  reload(settings: Settings): Promise<ReloadResult>;
  /** The same with the settings of the source, which are loaded again, and with all files as they are now. */
  reloadFromSource(cause: ReloadCause): Promise<ReloadResult>;
  /**
   * Makes readiness fail. Accepts traffic for `drain.delay`, with each response closing its connection, then no new
   * connections. Resolves when the requests in flight have ended, or `drain.timeout` has expired, and all is closed.
   */
  drain(): Promise<void>;
}

/** Rejects with a ListenError or a FilesError, with everything closed. */
export async function startGateway(settings: Settings, options: GatewayOptions): Promise<Gateway> {
  const open = new AsyncDisposableStack();
  return start(settings, options, open).catch(async (error) => {
    await open.disposeAsync();
    throw error;
  });
}

/** Adds to `open` what has to be closed, except the listeners that drain. */
async function start(settings: Settings, options: GatewayOptions, open: AsyncDisposableStack): Promise<Gateway> {
  const { log, clock, source = null } = options;
  const { base, inForce, traffic } = await createParts(settings, options, open);
  const { telemetry } = base;
  let status: Health["status"] = "starting";
  const admin = await startAdmin({
    ...settings.admin,
    metrics: (openMetrics) => telemetry.metrics.text(openMetrics),
    health: () => ({ status, upstream: telemetry.upstreamHealth() }),
    onError: (error) => log.error({ err: error }, "metrics scrape failed"),
    peerKey: (address) => readPeer(address, inForce.traffic.current.clientAddress).key,
    onClosedForRoom: () => telemetry.connectionShed("admin", null),
  }).catch((error) => {
    throw new ListenError("admin", settings.admin, error);
  });
  open.defer(() => admin.close());
  const extAuth = await openExtAuth(settings, inForce.checks, { log, clock, telemetry });
  const address = await traffic.listen(settings.listen).catch(async (error) => {
    await extAuth.drain(0);
    throw new ListenError("traffic", settings.listen, error);
  });
  const reloader = new Reloader(settings, inForce, base, source);
  await reloader.start();
  log.info({ listener: "traffic", ...address }, "listening");
  log.info({ listener: "admin", host: admin.host, port: admin.port }, "listening");
  extAuth.announceStart();
  status = "ready";
  return {
    traffic: address,
    admin: { host: admin.host, port: admin.port },
    extAuth: extAuth.http,
    grpc: extAuth.grpc,
    reload: (wanted) => reloader.to(wanted),
    reloadFromSource: (cause) => reloader.again(cause),
    async drain() {
      status = "draining";
      const reloaded = reloader.close();
      telemetry.metrics.setDraining();
      // Announced early, so that clients are not sending a request when their idle connections are closed.
      traffic.announceEnd();
      extAuth.announceEnd();
      const { delayMs, timeoutMs } = inForce.configuration.settings.drain;
      await new Promise((resolve) => setTimeout(resolve, delayMs));
      inForce.upstreams.stopChecking();
      const [brokenOff] = await Promise.all([traffic.drain(timeoutMs), extAuth.drain(timeoutMs)]);
      inForce.runtime.abortWaiting();
      if (brokenOff > 0) log.warn({ requests: brokenOff }, "drain timeout over, requests broken off");
      await reloaded;
      await open.disposeAsync();
    },
  };
}

/** Rejects with a FilesError. */
async function createParts(settings: Settings, options: GatewayOptions, open: AsyncDisposableStack) {
  const { clock, log } = options;
  const limiter = createLimiter(settings, clock, null);
  let inForce: InForce | null = null;
  const now = (): InForce => {
    if (inForce === null) throw new Error("the first configuration has not been made yet");
    return inForce;
  };
  const waitingBodies = new WaitingBodies();
  const telemetry: Telemetry = createTelemetry({
    ...options,
    routes: settings.routes,
    limiter: { stats: () => (inForce?.configuration.limiter ?? limiter).stats() },
    upstreamConnections: () => now().upstreams.connections(),
    waitingBodyBytes: () => waitingBodies.bytes,
    tunnels: () => now().upstreams.tunnels(),
    upstreamAddresses: () => now().upstreams.addresses(),
    clientConnections: () => traffic.connectionCount,
    tokens: () => now().configuration.authenticator.tokens(),
    certificate() {
      const { certificate } = now().configuration;
      return certificate && { expiresMs: certificate.value.expiresMs, isCurrent: certificate.isCurrent };
    },
  });
  open.defer(() => telemetry.close());
  const base: ConfigurationBase = {
    files: new FileWatcher(options.rereadMs),
    limiter,
    clock,
    log,
    telemetry,
    waitingBodies,
    names: options.names,
    authenticator: options.authenticator,
    isAccessLogged: () => now().configuration.settings.log.access,
  };
  inForce = new InForce(await configure(settings, base, null));
  open.defer(() => now().close());
  const { runtime, traffic: trafficRef } = inForce;
  const { proxyProtocol } = settings.listen;
  const { http2LingerMs = defaultLingerMs } = options;
  const traffic = createTraffic({ proxyProtocol, runtime, settings: trafficRef, telemetry, clock, http2LingerMs });
  return { base, inForce, traffic };
}
