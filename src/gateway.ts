// Starts the gateway: makes every part from the settings, connects the parts, and closes them in order. The parts do
// not import each other. pipeline.ts decides about requests.
import { startAdmin } from "./admin/server.ts";
import { upstreamTlsFiles } from "./config/tls-files.ts";
import { watchFiles } from "./config/watched-files.ts";
import type { Authenticator } from "./core/authenticator.ts";
import { readPeer } from "./core/client-address.ts";
import type { Clock } from "./core/clock.ts";
import { ResponseFields } from "./core/fields.ts";
import type { Health } from "./core/health.ts";
import type { HostPort } from "./core/host-port.ts";
import type { Settings } from "./core/settings.ts";
import { upstreamTargets } from "./core/upstream.ts";
import { type Exchange, RuntimeRef } from "./exchange/exchange.ts";
import { defaultLingerMs } from "./exchange/http2-lifetime.ts";
import { PolicyLimiter } from "./limits/policy-limiter.ts";
import { RefusalBuckets } from "./limits/refusal-buckets.ts";
import { createFileLog } from "./telemetry/file-log.ts";
import type { Logger } from "./telemetry/log.ts";
import { createTelemetry, type Telemetry } from "./telemetry/telemetry.ts";
import { createUpstreamEventLog } from "./telemetry/upstream-events.ts";
import { Forwarding } from "./upstream/forward.ts";
import type { ForwardingOptions } from "./upstream/forwarding-options.ts";
import { type NameOptions, namesBySystem } from "./upstream/name-lookup.ts";
import { openUpstream, type Upstream, type UpstreamOptions } from "./upstream/upstream.ts";
import { WaitingBodies } from "./upstream/waiting-bodies.ts";
import { createAuthenticator } from "./wiring/authenticators.ts";
import { openCertificate } from "./wiring/certificate.ts";
import { openExtAuth } from "./wiring/ext-auth.ts";
import { ListenError } from "./wiring/listen-error.ts";
import { clientAddressRules, requestRules } from "./wiring/request-rules.ts";
import { createRuntime } from "./wiring/runtime.ts";
import { createTraffic } from "./wiring/traffic.ts";

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
}

export interface Gateway {
  readonly traffic: HostPort;
  readonly admin: HostPort;
  /** Null: no checks over HTTP. */
  readonly extAuth: HostPort | null;
  /** Null: no checks over gRPC. */
  readonly grpc: HostPort | null;
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
  const { log } = options;
  const { runtime, traffic, telemetry, clientAddress, stopChecking, openExtAuth } = await createParts(
    settings,
    options,
    open,
  );
  let status: Health["status"] = "starting";
  const admin = await startAdmin({
    ...settings.admin,
    metrics: (openMetrics) => telemetry.metrics.text(openMetrics),
    health: () => ({ status, upstream: telemetry.upstreamHealth() }),
    onError: (error) => log.error({ err: error }, "metrics scrape failed"),
    peerKey: (address) => readPeer(address, clientAddress).key,
    onClosedForRoom: () => telemetry.connectionShed("admin", null),
  }).catch((error) => {
    throw new ListenError("admin", settings.admin, error);
  });
  open.defer(() => admin.close());
  const extAuth = await openExtAuth();
  const address = await traffic.listen(settings.listen).catch(async (error) => {
    await extAuth.drain(0);
    throw new ListenError("traffic", settings.listen, error);
  });
  log.info({ listener: "traffic", ...address }, "listening");
  log.info({ listener: "admin", host: admin.host, port: admin.port }, "listening");
  extAuth.announceStart();
  status = "ready";
  return {
    traffic: address,
    admin: { host: admin.host, port: admin.port },
    extAuth: extAuth.http,
    grpc: extAuth.grpc,
    async drain() {
      status = "draining";
      telemetry.metrics.setDraining();
      // Announced early, so that clients are not sending a request when their idle connections are closed.
      traffic.announceEnd();
      extAuth.announceEnd();
      await new Promise((resolve) => setTimeout(resolve, settings.drain.delayMs));
      stopChecking();
      const { timeoutMs } = settings.drain;
      const [brokenOff] = await Promise.all([traffic.drain(timeoutMs), extAuth.drain(timeoutMs)]);
      runtime.abortWaiting();
      if (brokenOff > 0) log.warn({ requests: brokenOff }, "drain timeout over, requests broken off");
      await open.disposeAsync();
    },
  };
}

/** Rejects with a FilesError. `openExtAuth` also rejects with a ListenError. */
async function createParts(settings: Settings, options: GatewayOptions, open: AsyncDisposableStack) {
  const { clock, log } = options;
  const clientAddress = clientAddressRules(settings, log);
  const limiter = new PolicyLimiter(settings.policies);
  const upstream = await createUpstream(settings, options, {
    onEnd: (end) => telemetry.tunnelEnded(end),
    onShareExceeded: (resource, client) => telemetry.shareExceeded(resource, client),
  });
  open.defer(() => upstream.close());
  const { connections, tunnels } = upstream;
  const waitingBodies = new WaitingBodies();
  const authenticator = options.authenticator ?? (await createAuthenticator(settings, log));
  open.defer(() => authenticator.close());
  const certificate = await openCertificate(settings, options);
  open.defer(() => certificate?.close());
  const telemetry: Telemetry = createTelemetry({
    ...options,
    accessLogEnabled: settings.log.access,
    routes: settings.routes,
    limiter,
    upstreamConnections: () => connections.figures(),
    waitingBodyBytes: () => waitingBodies.bytes,
    tunnels: () => tunnels.figures(),
    upstreamAddresses: () => upstream.addresses(),
    clientConnections: () => traffic.connectionCount,
    tokens: () => authenticator.tokens(),
    certificate: () =>
      certificate === null ? null : { expiresMs: certificate.value.expiresMs, isCurrent: certificate.isCurrent },
  });
  open.defer(() => telemetry.close());
  const rules = requestRules(settings, clientAddress);
  const fields = new ResponseFields({ clock, kinds: settings.fields, realm: settings.auth.realm });
  const forward = createForward(settings, clock, { ...upstream, waitingBodies }, telemetry);
  const refusals = new RefusalBuckets(settings.refusals);
  const runtimeParts = { rules, limiter, authenticator, refusals, fields, telemetry, clock, log, forward };
  const runtime = new RuntimeRef(createRuntime(runtimeParts));
  const traffic = createTraffic(settings, {
    runtime,
    clientAddress,
    certificate,
    telemetry,
    clock,
    http2LingerMs: options.http2LingerMs ?? defaultLingerMs,
  });
  return {
    runtime,
    traffic,
    telemetry,
    clientAddress,
    stopChecking: upstream.stopChecking,
    openExtAuth: () => openExtAuth(settings, runtimeParts, open),
  };
}

async function createUpstream(
  { upstream, upgrade, maxClientSharePercent }: Settings,
  options: GatewayOptions,
  events: Pick<UpstreamOptions, "onEnd" | "onShareExceeded">,
): Promise<Upstream> {
  const { log, clock, names = namesBySystem } = options;
  if (upstream.tls.insecureSkipVerify) {
    log.warn("upstream.tls.insecureSkipVerify is true: anyone on the network path can impersonate the upstream");
  }
  const { isTls } = upstreamTargets(upstream);
  const files = upstreamTlsFiles(upstream.tls);
  const tlsFiles = isTls ? await watchFiles(files, createFileLog(log, "files of upstream.tls")) : null;
  const parts = { ...upgrade, maxClientSharePercent, nowMs: clock.monotonicMs, names, tlsFiles, ...events };
  return openUpstream(upstream, parts, createUpstreamEventLog(log, clock));
}

function createForward(
  settings: Settings,
  clock: Clock,
  { connections, tunnels, waitingBodies }: Pick<ForwardingOptions, "connections" | "tunnels" | "waitingBodies">,
  telemetry: Telemetry,
): (exchange: Exchange) => void {
  const options: ForwardingOptions = {
    connections,
    tunnels,
    waitingBodies,
    maxBodyBytes: settings.maxBodyBytes,
    forwardingHeader: settings.clientAddress.header,
    bodyTimeoutMs: settings.timeouts.bodyMs,
    nowMs: clock.monotonicMs,
    onError: telemetry.upstreamFailed,
    onAnswer: telemetry.upstreamAnswered,
  };
  return (exchange) => new Forwarding(exchange, options).start();
}
