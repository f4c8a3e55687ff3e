// The wiring: makes every part from the settings, hands each what it needs, and takes them down in order. Nothing
// below this file knows of another part; what happens to a request stands in pipeline.ts.
import { randomUUID } from "node:crypto";
import { startAdmin } from "./admin/server.ts";
import { offVerifier, presenceVerifier } from "./auth/presence.ts";
import { watchTokenFile } from "./auth/token-list.ts";
import { type ClientAddressRules, readPeer } from "./core/client-address.ts";
import type { Clock } from "./core/clock.ts";
import type { RequestFacts, RequestRules } from "./core/decide.ts";
import { ResponseFields } from "./core/fields.ts";
import type { Health } from "./core/health.ts";
import { parseCidr } from "./core/ip-address.ts";
import { createPathReader } from "./core/request-path.ts";
import type { Settings } from "./core/settings.ts";
import type { UpstreamErrorReason, UpstreamHealth } from "./core/upstream.ts";
import type { Verifier } from "./core/verifier.ts";
import { MemoryStore } from "./limiter/memory-store.ts";
import { createDecide } from "./pipeline.ts";
import { Forwarding } from "./proxy/forward.ts";
import { trustedRequestId, upstreamRequestFields } from "./proxy/request-fields.ts";
import { UpstreamConnections } from "./proxy/upstream-connections.ts";
import { upstreamErrorCode } from "./proxy/upstream-error.ts";
import type { ActiveRequest } from "./server/active-request.ts";
import { TrafficServer } from "./server/traffic-server.ts";
import { createAccessLog } from "./telemetry/access-log.ts";
import type { Logger } from "./telemetry/log.ts";
import { createMetrics } from "./telemetry/metrics.ts";
import { createUpstreamLog } from "./telemetry/upstream-log.ts";

export interface GatewayOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly version: string;
  readonly nodeVersion: string;
}

export interface ListenerAddress {
  readonly host: string;
  readonly port: number;
}

export interface Gateway {
  readonly traffic: ListenerAddress;
  readonly admin: ListenerAddress;
  /**
   * Readiness fails, traffic goes on for `drain.delay`, then no new connections; resolves when what is in flight is
   * done or `drain.timeout` is over, and everything is closed.
   */
  drain(): Promise<void>;
}

/** Rejects with the system's error if a port cannot be had, or with a TokenFileProblem; nothing is left open then. */
export async function startGateway(settings: Settings, options: GatewayOptions): Promise<Gateway> {
  const { clock, log } = options;
  const [policy] = settings.policies;
  const clientAddress = clientAddressRules(settings);
  const rules = requestRules(settings, clientAddress);
  const store = new MemoryStore(policy);
  const verifier = await createVerifier(settings, log);
  const fields = new ResponseFields({ clock, kinds: settings.fields, realm: settings.auth.realm });
  const connections = new UpstreamConnections(settings.upstream);
  const accessLog = createAccessLog(log, { enabled: settings.log.access });
  const upstreamLog = createUpstreamLog(log, { clock });
  let status: Health["status"] = "starting";
  let upstreamHealth: UpstreamHealth = { state: "unknown", reason: null };

  const server = new TrafficServer({
    upstreamUrl: settings.upstream.url,
    routes: settings.unmatched === "proxy" ? [...settings.routes, "/"] : settings.routes,
    headTimeoutMs: settings.timeouts.headMs,
    keepAliveTimeoutMs: settings.timeouts.keepAliveMs,
    fields,
    nowMs: clock.monotonicMs,
    readPeer: (remoteAddress) => readPeer(remoteAddress, clientAddress),
    decide: createDecide({ rules, store, verifier }),
    observe: (peer) => store.peek(peer.key, clock.monotonicMs()),
    requestId: (facts: RequestFacts) => trustedRequestId(facts.rawFields, facts.peer) ?? randomUUID(),
    forward: (active) => forward(active),
    onEnd: (exchange, path) => {
      metrics.observe(exchange);
      accessLog.record(exchange, path);
    },
    onFailure: (error) => log.error({ err: error }, "internal error"),
  });
  const metrics = createMetrics({
    routes: settings.routes,
    policy,
    store,
    upstreamConnections: () => connections.figures(),
    upstreamHealth: () => upstreamHealth,
    clientConnections: () => server.connectionCount,
    logLines: () => ({ sampled: accessLog.omitted + upstreamLog.omitted, dropped: 0 }),
    version: options.version,
    nodeVersion: options.nodeVersion,
  });

  const onUpstreamError = (reason: UpstreamErrorReason, error: Error | null, id: string): void => {
    metrics.upstreamError(reason);
    // A gateway that ran out of connections says nothing about whether the upstream is there.
    if (reason !== "overloaded") upstreamHealth = { state: "down", reason };
    upstreamLog.record({ reason, code: error === null ? null : upstreamErrorCode(error), id });
  };
  const forward = (active: ActiveRequest): void => {
    const { target, message, upstreamTarget } = active.verdict.reading;
    const host = target?.authority ?? message.host;
    const origin = { peer: active.connection.peer, host, requestId: active.exchange.id };
    const request = { path: upstreamTarget ?? "/", fields: upstreamRequestFields(active.req.rawHeaders, origin) };
    const forwarding = new Forwarding(active, request, {
      connections,
      maxBodyBytes: settings.maxBodyBytes,
      bodyTimeoutMs: settings.timeouts.bodyMs,
      nowMs: clock.monotonicMs,
      onError: (reason, error, exchange) => onUpstreamError(reason, error, exchange.id),
      onAnswer: () => {
        upstreamHealth = { state: "up", reason: null };
      },
    });
    active.cancel = (problem) => forwarding.cancel(problem);
    forwarding.start();
  };

  const closeParts = async (): Promise<void> => {
    verifier.close();
    accessLog.close();
    upstreamLog.close();
    await connections.close();
  };
  const admin = await startAdmin({
    ...settings.admin,
    metrics: (openMetrics) => metrics.text(openMetrics),
    health: () => ({ status, upstream: upstreamHealth }),
    onError: (error) => log.error({ err: error }, "scrape failed"),
  }).catch(async (error) => {
    await closeParts();
    throw error;
  });
  const traffic = await server.listen(settings.listen.host, settings.listen.port).catch(async (error) => {
    await admin.close();
    await closeParts();
    throw error;
  });
  log.info({ listener: "traffic", ...traffic }, "listening");
  log.info({ listener: "admin", host: admin.host, port: admin.port }, "listening");
  status = "ready";

  return {
    traffic,
    admin: { host: admin.host, port: admin.port },
    async drain() {
      status = "draining";
      metrics.setDraining();
      await new Promise((resolve) => setTimeout(resolve, settings.drain.delayMs));
      await server.drain(settings.drain.timeoutMs);
      await closeParts();
      await admin.close();
    },
  };
}

function clientAddressRules({ clientAddress }: Settings): ClientAddressRules {
  const trustedProxies = clientAddress.trustedProxies.map((text) => {
    const cidr = parseCidr(text);
    if (cidr === undefined) throw new Error("a trusted proxy is neither an address nor a network");
    return cidr;
  });
  return { trustedProxies, ipv6Prefix: clientAddress.ipv6Prefix };
}

function requestRules(settings: Settings, clientAddress: ClientAddressRules): RequestRules {
  const upstreamPath = new URL(settings.upstream.url).pathname;
  return {
    clientAddress,
    readPath: createPathReader(settings.routes, settings.basePath),
    unmatched: settings.unmatched,
    maxBodyBytes: settings.maxBodyBytes,
    paths: { own: settings.basePath, upstream: upstreamPath === "/" ? "/" : upstreamPath.replace(/\/$/, "") },
  };
}

async function createVerifier({ auth }: Settings, log: Logger): Promise<Verifier> {
  switch (auth.mode) {
    case "off":
      return offVerifier;
    case "presence":
      return presenceVerifier;
    case "tokens":
      return watchTokenFile(auth.tokensFile ?? "", {
        onReload: (tokens) => log.info({ tokens }, "tokens file reread"),
        onError: (why) => log.error({ why }, "tokens file not usable, the tokens from before stay in use"),
      });
  }
}
