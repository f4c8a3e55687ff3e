// Everything that is made from the settings. A reload makes another one whole, before anything is replaced, and takes
// over each part whose settings are the same: connections to the upstream and their state, counters, watched files.
import { isDeepStrictEqual } from "node:util";
import type { TokenList } from "../auth/token-list.ts";
import { policyWarnings } from "../config/warnings.ts";
import type { Authenticator } from "../core/authenticator.ts";
import type { Clock } from "../core/clock.ts";
import { ResponseFields } from "../core/fields.ts";
import type { Watched } from "../core/file-group.ts";
import type { Settings } from "../core/settings.ts";
import type { Certificate } from "../core/tls.ts";
import type { TrafficSettings } from "../core/traffic-settings.ts";
import type { Runtime } from "../exchange/exchange.ts";
import type { PolicyLimiter } from "../limits/policy-limiter.ts";
import { RefusalBuckets } from "../limits/refusal-buckets.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { NameOptions } from "../upstream/name-lookup.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { WaitingBodies } from "../upstream/waiting-bodies.ts";
import { createAuthenticator, type FilesAndLog, openSecrets } from "./authenticators.ts";
import { openCertificate } from "./certificate.ts";
import { type CheckConfiguration, configureChecks } from "./checks.ts";
import { createLimiter, limiterSettings } from "./limiter.ts";
import { clientAddressRules, requestRules } from "./request-rules.ts";
import { createRuntime } from "./runtime.ts";
import { trafficSettings } from "./traffic.ts";
import { createForward, createUpstream, upstreamSettings } from "./upstream.ts";

export interface Configuration {
  readonly settings: Settings;
  readonly limiter: PolicyLimiter;
  readonly refusals: RefusalBuckets;
  readonly authenticator: Authenticator;
  readonly upstream: Upstream;
  /** Null: connections are plain. */
  readonly certificate: Watched<Certificate> | null;
  /** Null: ingresses are known by their addresses alone. */
  readonly secrets: Watched<TokenList> | null;
  readonly runtime: Runtime;
  readonly traffic: TrafficSettings;
  /** Null: there are no listeners for checks. */
  readonly checks: CheckConfiguration | null;
}

/** What does not depend on the settings. */
export interface ConfigurationBase extends FilesAndLog {
  /** Of the settings at the start. */
  readonly limiter: PolicyLimiter;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly waitingBodies: WaitingBodies;
  readonly names: NameOptions | undefined;
  /** Used in place of the one of the settings. */
  readonly authenticator: Authenticator | undefined;
  /** Whether a request that ends now has a line in the log. */
  readonly isAccessLogged: () => boolean;
}

/** Rejects with a FilesError, with everything closed that was opened. `before` stays as it is. */
export async function configure(
  settings: Settings,
  base: ConfigurationBase,
  before: Configuration | null,
): Promise<Configuration> {
  const opened: { close(): void }[] = [];
  try {
    return await configureWith(settings, base, before, opened);
  } catch (error) {
    for (const part of opened) part.close();
    throw error;
  }
}

async function configureWith(
  settings: Settings,
  base: ConfigurationBase,
  before: Configuration | null,
  opened: { close(): void }[],
): Promise<Configuration> {
  const { clock, log, telemetry } = base;
  const isSame = (part: (settings: Settings) => unknown): boolean =>
    before !== null && isDeepStrictEqual(part(before.settings), part(settings));
  const opening = async <T extends { close(): void } | null>(part: Promise<T>): Promise<T> => {
    const made = await part;
    if (made !== null) opened.push(made);
    return made;
  };

  const upstream =
    before !== null && isSame(upstreamSettings)
      ? before.upstream
      : await opening(createUpstream(settings, { ...base, ...upstreamEvents(base) }));
  const authenticator =
    before !== null && isSame(({ auth: { mode, tokensFile } }) => [mode, tokensFile])
      ? before.authenticator
      : (base.authenticator ?? (await opening(createAuthenticator(settings, base))));
  const certificate =
    before !== null && isSame(({ listen: { tls } }) => tls && [tls.cert, tls.key, tls.clientCa])
      ? before.certificate
      : await opening(openCertificate(settings, base));
  const secrets =
    before !== null && isSame(({ extAuth }) => extAuth.secretsFile)
      ? before.secrets
      : await opening(openSecrets(settings, base));

  // From here on nothing is awaited, so that nothing is counted in between.
  const clientAddress =
    before !== null && isSame((each) => each.clientAddress)
      ? before.traffic.clientAddress
      : clientAddressRules(settings, log);
  const limiter = limiterOf(settings, base, before);
  const refusals = refusalsOf(settings, before, clock.monotonicMs());
  const forward = createForward(settings, upstream, base);
  const rules = requestRules(settings, clientAddress);
  const fields = new ResponseFields({ clock, kinds: settings.fields, realm: settings.auth.realm, cors: rules.cors });
  const parts = { rules, limiter, authenticator, refusals, fields, telemetry, clock, log, forward };
  const runtimeParts = { ...parts, accessLog: settings.log.access };
  warnOfPolicies(settings, before, log);
  return {
    settings,
    limiter,
    refusals,
    authenticator,
    upstream,
    certificate,
    secrets,
    runtime: createRuntime(runtimeParts),
    traffic: trafficSettings(settings, clientAddress, certificate),
    checks: configureChecks(
      settings,
      { ...runtimeParts, limiter: limiter.forChecks(), quotas: limiter.forQuotas() },
      secrets,
      before,
    ),
  };
}

/** A reload repeats no warning. */
function warnOfPolicies(settings: Settings, before: Configuration | null, log: FilesAndLog["log"]): void {
  const known = new Set(before === null ? [] : policyWarnings(before.settings));
  for (const detail of policyWarnings(settings)) {
    if (!known.has(detail)) log.warn({ detail }, "policy warning");
  }
}

function limiterOf(settings: Settings, base: ConfigurationBase, before: Configuration | null): PolicyLimiter {
  if (before === null) return base.limiter;
  const isSame = isDeepStrictEqual(limiterSettings(before.settings), limiterSettings(settings));
  return isSame ? before.limiter : createLimiter(settings, base.clock, before.limiter);
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
