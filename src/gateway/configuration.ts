// Everything that is made from the settings. A reload makes another configuration whole, and takes over each part whose
// settings are the same: connections to the upstream and their state, counters, watched files. Then one synchronous step
// replaces what is in force, so that each request sees the old configuration or the new one.

import type { SecureContext } from "node:tls";
import { createDemandReader } from "../auth/authenticator.ts";
import { uncheckedPaths } from "../config/unchecked-paths.ts";
import { addedWarnings } from "../config/warnings.ts";
import type { ClientAddressRules } from "../core/client-address.ts";
import type { Watched } from "../core/file-group.ts";
import { maxFields } from "../core/http-bounds.ts";
import type { RequestRules } from "../core/request-head.ts";
import { ResponseFields } from "../core/response-fields.ts";
import { type Certificate, type Replaceable, type Settings, shareOf, type TrafficSettings } from "../core/settings.ts";
import {
  type AddressFigures,
  type AddressState,
  type ConnectionFigures,
  type TunnelFigures,
  type UpstreamErrorReason,
  upstreamHostOf,
} from "../core/upstream.ts";
import { type Runtime, RuntimeRef } from "../exchange/exchange.ts";
import type { PolicyLimiter } from "../limits/limiter.ts";
import { RefusalBuckets } from "../limits/refusal-buckets.ts";
import { changeLog } from "../telemetry/log.ts";
import { createUpstreamEventLog } from "../telemetry/upstream-log.ts";
import { createForward, type ForwardingOptions } from "../upstream/forward.ts";
import { openUpstream, type Upstream } from "../upstream/open-upstream.ts";
import { type ConfiguredFiles, closeFiles, ifSame, openConfiguredFiles, upstreamSettings } from "./configured-files.ts";
import { type ChosenSlots, createLimiter, limiterSettings } from "./open-counters.ts";
import type { CheckRefs } from "./open-listeners.ts";
import { createJudgedTrial, type JudgedTrial, type SettingsOnTrial } from "./reload-trials.ts";
import {
  type CheckConfiguration,
  clientAddressRules,
  configureChecks,
  createRuntime,
  quotaPathOf,
  requestRules,
} from "./runtimes.ts";
import type { ThreadContext } from "./thread-context.ts";

/** What has to be opened before a configuration can be made of it. */
export interface Opened {
  readonly settings: Settings;
  readonly files: ConfiguredFiles;
  readonly upstream: Upstream;
}

export interface Configuration extends Opened {
  readonly limiter: PolicyLimiter;
  readonly refusals: RefusalBuckets;
  /** Null: nothing is on trial, or it is not judged. */
  readonly trial: JudgedTrial | null;
  readonly clientAddress: ClientAddressRules;
  readonly rules: RequestRules;
  readonly runtime: Runtime;
  readonly traffic: TrafficSettings;
  /** Null: there are no listeners for checks. */
  readonly checks: CheckConfiguration | null;
}

/** Rejects with a FilesError, with everything closed that was opened. `before` stays as it is. */
export async function openFilesAndUpstream(
  settings: Settings,
  context: ThreadContext,
  before: Configuration | null,
): Promise<Opened> {
  const files = await openConfiguredFiles(settings, context, before);
  try {
    const same = ifSame(before, settings, upstreamSettings)?.upstream;
    return { settings, files, upstream: same ?? (await createUpstream(settings, files.upstreamTls, context)) };
  } catch (error) {
    closeFiles(files, before?.files ?? null);
    throw error;
  }
}

/** Closes what was opened if no configuration is made of it, except what `before` has too. */
export function closeFilesAndUpstream({ files, upstream }: Opened, before: Configuration | null): void {
  closeFiles(files, before?.files ?? null);
  if (upstream !== before?.upstream) upstream.close();
}

/**
 * Is synchronous, so that nothing is counted in between. `before`: the configuration that the parts were opened for; null at
 * the start. `chosen`: by the main thread; by default slots are chosen here. `onTrial`: null if the settings are not.
 */
export function configure(
  { settings, files, upstream }: Opened,
  context: ThreadContext,
  before: Configuration | null,
  chosen?: ChosenSlots,
  onTrial: SettingsOnTrial | null = null,
): Configuration {
  const { clock, log, notices, telemetry, ticketSecret, runtimeRules } = context;
  const { authenticator, certificate, secrets } = files;
  const limiter =
    ifSame(before, settings, limiterSettings)?.limiter ??
    createLimiter(settings, context, before?.limiter ?? null, { chosen, keep: onTrial?.fallback.policies ?? [] });
  const refusals = refusalsOf(settings, before, clock.monotonicMs());
  const rules = rulesOf(settings, context, before);
  const fields = new ResponseFields(settings, clock, rules.cors);
  const forward = createForward(forwardingOptions(settings, rules, upstream, context));
  const { log: logged, requestId } = settings;
  const { keyHash } = context.counters;
  const demandOf = createDemandReader(settings.auth, settings.routes, settings.basePath);
  const trial = createJudgedTrial(limiter, context, onTrial);
  const parts = {
    ...{ trial, rules, runtimeRules, limiter, authenticator, demandOf, refusals },
    ...{ fields, telemetry, clock, log, forward, keyHash, logged, requestId },
  };
  const ofChecks = { limiter: limiter.forChecks(), quotas: limiter.forQuotas() };
  if (ifSame(before, settings, uncheckedPaths) === null) {
    notices.configuration.info(uncheckedPaths(settings), "limited paths without a verified token");
  }
  for (const detail of addedWarnings(before?.settings ?? null, settings)) {
    notices.configuration.warn({ detail }, "configuration warning");
  }
  return {
    ...{ settings, files, upstream, limiter, refusals, trial, rules, clientAddress: rules.clientAddress },
    runtime: createRuntime(parts),
    traffic: trafficSettings(settings, rules.clientAddress, certificate, ticketSecret),
    checks: configureChecks(settings, parts, ofChecks, secrets, before),
  };
}

function refusalsOf(settings: Settings, before: Configuration | null, nowMs: number): RefusalBuckets {
  const same = ifSame(before, settings, ({ refusals }) => refusals);
  if (same !== null) return same.refusals;
  return before === null ? new RefusalBuckets(settings.refusals) : before.refusals.withRate(settings.refusals, nowMs);
}

function rulesOf(settings: Settings, context: ThreadContext, before: Configuration | null): RequestRules {
  const pathReader = ifSame(before, settings, ({ routes, basePath }) => ({ routes, basePath }))?.rules.pathReader;
  const same = ifSame(before, settings, ({ clientAddress }) => clientAddress);
  const clientAddress = same?.clientAddress ?? clientAddressRules(settings);
  const rules = requestRules(settings, clientAddress, quotaPathOf(settings), pathReader);
  const { readiness: reply, telemetry } = context;
  return { ...rules, readiness: rules.readiness && { ...rules.readiness, reply }, onIgnored: telemetry.clientIgnored };
}

/** `certificate` is null if connections are plain. */
function trafficSettings(
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
    headBounds: { maxBytes: settings.maxHeaderBytes, maxFields },
    newConnections: {
      burst: share(maxConnectionsPerPeer + newConnectionsPerPeer),
      perSecond: share(newConnectionsPerPeer),
    },
    streams: { max: share(maxConnections), maxPerPeer: share(maxConnectionsPerPeer) },
    headTimeoutMs: timeouts.headMs,
    keepAliveTimeoutMs: timeouts.keepAliveMs,
    lingerMs: timeouts.lingerMs,
    stallTimeoutMs: stallTimeoutMs(settings),
    upgradeProtocols: new Set(upgrade.protocols),
    clientAddress,
    proxyScheme: listen.proxyScheme,
    tls: certificate === null ? null : { certificate, ticketSecret, http2: listen.tls?.http2 ?? true },
  };
}

/** Exceeds each wait that has its own timeout (for a connection, for the upstream, for the client's body). */
function stallTimeoutMs({ timeouts, upstream }: Settings): number {
  const { connectTimeoutMs, responseTimeoutMs, bodyTimeoutMs } = upstream;
  return timeouts.bodyMs + 2 * connectTimeoutMs + Math.max(responseTimeoutMs, bodyTimeoutMs);
}

/** Listeners, requests and metrics read the configuration in force here. */
export class InForce {
  readonly runtime: RuntimeRef;
  readonly traffic: Replaceable<TrafficSettings>;
  /** Null: there are no listeners for checks. */
  readonly checks: CheckRefs | null;
  readonly upstreams: Upstreams;
  readonly #context: ThreadContext;
  #configuration: Configuration;

  constructor(first: Configuration, context: ThreadContext) {
    const { runtime, traffic, checks, upstream } = first;
    this.#context = context;
    this.#configuration = first;
    this.runtime = new RuntimeRef(runtime);
    this.traffic = { current: traffic };
    this.checks = checks && {
      runtime: new RuntimeRef(checks.runtime),
      quotaRuntime: new RuntimeRef(checks.quotaRuntime),
      settings: { current: checks.settings },
    };
    this.upstreams = new Upstreams(upstream);
    context.runtimeRules.ipv6Prefix = first.settings.clientAddress.ipv6Prefix;
    this.#addSeries();
  }

  get configuration(): Configuration {
    return this.#configuration;
  }

  /** Nothing is awaited here: no request begins in between. */
  replace(next: Configuration): void {
    const { log, clock, telemetry, settings, runtimeRules } = this.#context;
    const before = this.#configuration;
    this.#configuration = next;
    settings.current = next.settings;
    runtimeRules.ipv6Prefix = next.settings.clientAddress.ipv6Prefix;
    this.runtime.current = next.runtime;
    this.traffic.current = next.traffic;
    if (this.checks !== null && next.checks !== null) {
      this.checks.runtime.current = next.checks.runtime;
      this.checks.quotaRuntime.current = next.checks.quotaRuntime;
      this.checks.settings.current = next.checks.settings;
    }
    this.#addSeries();
    if (next.limiter !== before.limiter) before.limiter.replacedBy(next.limiter);
    if (next.upstream !== before.upstream) telemetry.upstreamReplaced();
    this.upstreams.replace(next.upstream);
    changeLog(log, before.settings.log, next.settings.log, clock);
    closeFiles(before.files, next.files);
  }

  /** The configuration in force is not on trial any more. */
  endTrial(): void {
    const { limiter, trial } = this.#configuration;
    limiter.endKeeping();
    trial?.end();
  }

  /** Closes the connections to the upstream, those with a request too, and stops watching files. */
  close(): void {
    this.upstreams.close();
    closeFiles(this.#configuration.files, null);
  }

  #addSeries(): void {
    const { routes, policies } = this.#configuration.settings;
    this.#context.telemetry.metrics.addSeries({ routes, policies: policies.map(({ name }) => name) });
  }
}

// Opens the upstream of the settings, and says how requests are forwarded to it. The upstreams that a reload has replaced
// are kept until their last request or tunnel has ended.

async function createUpstream(
  settings: Settings,
  tlsFiles: Watched<SecureContext> | null,
  context: ThreadContext,
): Promise<Upstream> {
  const { upstream, limits } = upstreamSettings(settings);
  const { log, clock, names, telemetry, textWrites } = context;
  const options = {
    ...limits,
    ...{ names, tlsFiles, textWrites },
    nowMs: clock.monotonicMs,
    onEnd(end: Parameters<typeof telemetry.tunnelEnded>[0]) {
      if (context.settings.current.log.access) telemetry.tunnelEnded(end);
    },
    onShareExceeded: telemetry.shareExceeded,
  };
  return openUpstream(upstream, options, createUpstreamEventLog(log, clock, telemetry.linesPerSecond));
}

function forwardingOptions(
  settings: Settings,
  { fieldNames }: RequestRules,
  { connections, tunnels }: Upstream,
  { waitingBodies, clock, telemetry }: ThreadContext,
): ForwardingOptions {
  return {
    connections,
    tunnels,
    waitingBodies,
    maxBodyBytes: settings.maxBodyBytes,
    forwardingHeader: settings.clientAddress.header,
    fieldNames,
    ...upstreamHostOf(settings.upstream.url, settings.upstream.hostHeader),
    bodyTimeoutMs: settings.timeouts.bodyMs,
    bodyBytesPerSecond: settings.timeouts.bodyRate,
    nowMs: clock.monotonicMs,
    onError: telemetry.upstreamFailed,
    onAnswer: telemetry.upstreamAnswered,
  };
}

/** Adds up the figures of all, so that no counter goes back when an upstream is replaced. */
class Upstreams {
  #current: Upstream;
  #retired: readonly Upstream[] = [];
  /** Of the upstreams that are closed. */
  #closed: Totals = { ejections: 0, failovers: new Map(), failedLookups: 0 };

  constructor(first: Upstream) {
    this.#current = first;
  }

  /** The old upstream gets no new requests, closes its idle connections, and serves the requests that it has. */
  replace(next: Upstream): void {
    if (next === this.#current) return;
    this.#current.retire();
    this.#retired = [...this.#retired, this.#current];
    this.#current = next;
    this.#closeUnused();
  }

  stopChecking(): void {
    this.#current.stopChecking();
  }

  connections(): ConnectionFigures {
    this.#closeUnused();
    return this.#all
      .map(({ connections }) => connections.figures())
      .reduce((a, b) => ({ active: a.active + b.active, idle: a.idle + b.idle, waiting: a.waiting + b.waiting }));
  }

  tunnels(): TunnelFigures {
    return this.#all
      .map(({ tunnels }) => tunnels.figures())
      .reduce((a, b) => ({ opening: a.opening + b.opening, open: a.open + b.open }));
  }

  addresses(): AddressFigures {
    const totals = [this.#closed, ...this.#all.map((upstream) => upstream.addresses())].reduce(sum);
    return { ...this.#current.addresses(), ...totals };
  }

  /** Of the upstream in use. */
  addressStates(): AddressState[] {
    return this.#current.addressStates();
  }

  /** Closes all connections, those with a request too. */
  close(): void {
    for (const upstream of this.#all) upstream.close();
  }

  get #all(): readonly Upstream[] {
    return [this.#current, ...this.#retired];
  }

  #closeUnused(): void {
    const unused = this.#retired.filter((upstream) => upstream.isUnused());
    if (unused.length === 0) return;
    this.#closed = [this.#closed, ...unused.map((upstream) => upstream.addresses())].reduce(sum);
    this.#retired = this.#retired.filter((upstream) => !unused.includes(upstream));
    for (const upstream of unused) upstream.close();
  }
}

type Totals = Pick<AddressFigures, "ejections" | "failovers" | "failedLookups">;

function sum(a: Totals, b: Totals): Totals {
  const reasons = new Set<UpstreamErrorReason>([...a.failovers.keys(), ...b.failovers.keys()]);
  return {
    ejections: a.ejections + b.ejections,
    failovers: new Map(
      [...reasons].map((reason) => [reason, (a.failovers.get(reason) ?? 0) + (b.failovers.get(reason) ?? 0)]),
    ),
    failedLookups: a.failedLookups + b.failedLookups,
  };
}
