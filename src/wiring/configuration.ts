// Everything that is made from the settings. A reload makes another one whole, before anything is replaced, and takes
// over each part whose settings are the same: connections to the upstream and their state, counters, watched files.
import { isDeepStrictEqual } from "node:util";
import { addedWarnings } from "../config/warnings.ts";
import type { ClientBytes } from "../core/client-share.ts";
import type { Clock } from "../core/clock.ts";
import { ResponseFields } from "../core/response-fields.ts";
import type { Settings } from "../core/settings.ts";
import type { TrafficSettings } from "../core/traffic-settings.ts";
import type { Runtime } from "../exchange/exchange.ts";
import type { TextWrites } from "../exchange/text-writes.ts";
import type { PolicyLimiter } from "../limits/limiter.ts";
import type { PolicySlot } from "../limits/policies.ts";
import { RefusalBuckets } from "../limits/refusal-buckets.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { NameOptions } from "../upstream/name-lookup.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { type CheckConfiguration, configureChecks } from "./checks.ts";
import { type ConfiguredFiles, closeFiles, type FilesBase, openConfiguredFiles } from "./configured-files.ts";
import type { ThreadCounters } from "./counters.ts";
import { createLimiter, type LimiterParts, limiterSettings } from "./limiter.ts";
import { clientAddressRules, requestRules } from "./request-rules.ts";
import { createRuntime } from "./runtime.ts";
import { trafficSettings } from "./traffic.ts";
import { createForward, createUpstream, upstreamSettings } from "./upstream.ts";

export interface Configuration {
  readonly settings: Settings;
  readonly files: ConfiguredFiles;
  readonly limiter: PolicyLimiter;
  readonly refusals: RefusalBuckets;
  readonly upstream: Upstream;
  readonly runtime: Runtime;
  readonly traffic: TrafficSettings;
  /** Null: there are no listeners for checks. */
  readonly checks: CheckConfiguration | null;
}

/** What does not depend on the settings. */
export interface ConfigurationBase {
  readonly files: FilesBase;
  /** Of the settings at the start. */
  readonly limiter: PolicyLimiter;
  readonly counters: ThreadCounters;
  readonly clock: Clock;
  readonly log: Logger;
  /** For warnings about the configuration. */
  readonly notices: Logger;
  readonly telemetry: Telemetry;
  readonly waitingBodies: ClientBytes;
  readonly textWrites: TextWrites;
  /** For session tickets; null: no other thread has to read them. */
  readonly ticketSecret: Uint8Array | null;
  readonly names: NameOptions | undefined;
  /** Whether requests that end now are logged. */
  readonly isAccessLogged: () => boolean;
}

/** The parts that are opened asynchronously, before a configuration is made from them. */
export interface PreparedParts {
  readonly settings: Settings;
  readonly files: ConfiguredFiles;
  readonly upstream: Upstream;
}

/** Rejects with a FilesError, with everything closed that was opened. `before` stays as it is. */
export async function prepareParts(
  settings: Settings,
  base: ConfigurationBase,
  before: Configuration | null,
): Promise<PreparedParts> {
  const files = await openConfiguredFiles(settings, base.files, before);
  const isSame = before !== null && isDeepStrictEqual(upstreamSettings(before.settings), upstreamSettings(settings));
  if (isSame) return { settings, files, upstream: before.upstream };
  const parts = { ...base, ...upstreamEvents(base) };
  const upstream = await createUpstream(settings, files.upstreamTls, parts).catch((error) => {
    closeFiles(files, before?.files ?? null);
    throw error;
  });
  return { settings, files, upstream };
}

/** Closes parts of which no configuration is made. */
export function closeParts({ files, upstream }: PreparedParts, kept: Configuration | null): void {
  closeFiles(files, kept?.files ?? null);
  if (upstream !== kept?.upstream) upstream.close();
}

/** Is synchronous, so that nothing is counted in between. `before`: the configuration that the parts were prepared for. */
export function configure(
  { settings, files, upstream }: PreparedParts,
  base: ConfigurationBase,
  before: Configuration | null,
  slots?: readonly PolicySlot[],
): Configuration {
  const { clock, log, notices, telemetry } = base;
  const { authenticator, certificate, secrets } = files;
  const clientAddress =
    before !== null && isDeepStrictEqual(before.settings.clientAddress, settings.clientAddress)
      ? before.traffic.clientAddress
      : clientAddressRules(settings);
  const limiter = limiterOf(settings, { ...base, slots }, before);
  const refusals = refusalsOf(settings, before, clock.monotonicMs());
  const forward = createForward(settings, upstream, base);
  const rules = requestRules(settings, clientAddress);
  const fields = new ResponseFields({ clock, kinds: settings.fields, realm: settings.auth.realm, cors: rules.cors });
  const parts = { rules, limiter, authenticator, refusals, fields, telemetry, clock, log, forward };
  const runtimeParts = { ...parts, accessLog: settings.log.access };
  const checkParts = { ...runtimeParts, limiter: limiter.forChecks(), quotas: limiter.forQuotas() };
  for (const detail of addedWarnings(before?.settings ?? null, settings)) {
    notices.warn({ detail }, "configuration warning");
  }
  return {
    settings,
    files,
    limiter,
    refusals,
    upstream,
    runtime: createRuntime(runtimeParts),
    traffic: trafficSettings(settings, clientAddress, certificate, base.ticketSecret),
    checks: configureChecks(settings, checkParts, secrets, before),
  };
}

function limiterOf(
  settings: Settings,
  base: ConfigurationBase & LimiterParts,
  before: Configuration | null,
): PolicyLimiter {
  if (before === null) return base.limiter;
  const isSame = isDeepStrictEqual(limiterSettings(before.settings), limiterSettings(settings));
  return isSame ? before.limiter : createLimiter(settings, base, before.limiter);
}

function refusalsOf({ refusals }: Settings, before: Configuration | null, nowMs: number): RefusalBuckets {
  if (before === null) return new RefusalBuckets(refusals);
  const isSame = isDeepStrictEqual(before.settings.refusals, refusals);
  return isSame ? before.refusals : before.refusals.withRate(refusals, nowMs);
}

function upstreamEvents({ telemetry, isAccessLogged }: ConfigurationBase) {
  return {
    onEnd: (end: Parameters<Telemetry["tunnelEnded"]>[0]) => {
      if (isAccessLogged()) telemetry.tunnelEnded(end);
    },
    onShareExceeded: telemetry.shareExceeded,
    linesPerSecond: telemetry.linesPerSecond,
  };
}
