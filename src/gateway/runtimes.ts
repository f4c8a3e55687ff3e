// Makes the runtimes from the settings: one for the traffic, and two for the checks of an ingress. All have the same rules
// about requests, counters, authenticator and telemetry.

import type { TokenList } from "../auth/tokens-file.ts";
import { type AuthDemand, type Authenticator, stricterOf } from "../core/authentication.ts";
import type { ClientAddressRules } from "../core/client-address.ts";
import type { Clock } from "../core/clock.ts";
import { hexOfKey } from "../core/counter-key.ts";
import { FieldNames } from "../core/field-names.ts";
import type { Watched } from "../core/file-group.ts";
import { canonicalHost, cidrOf } from "../core/ip-address.ts";
import type { Limiter, QuotaLimiter, RefusalBudget } from "../core/limiter.ts";
import { probeReplies } from "../core/local-reply.ts";
import { NetworkSet } from "../core/network-set.ts";
import type { DemandReader, QuotaPath, RequestRules } from "../core/request-head.ts";
import { createPathReader, type PathReader } from "../core/request-path.ts";
import { AllowedOrigins, type ResponseFields } from "../core/response-fields.ts";
import type { RulesInForce } from "../core/rules-in-force.ts";
import type { AccessLogSettings, LoggedSubject, RequestSettings, Settings } from "../core/settings.ts";
import type { Runtime } from "../exchange/exchange.ts";
import { TokenEnds } from "../exchange/token-ends.ts";
import { admitCheck } from "../ext-auth/check.ts";
import { createDecideQuota, type QuotaHead } from "../ext-auth/quota-decide.ts";
import { type CheckSettings, TrustedCallers } from "../ext-auth/trusted-callers.ts";
import type { SipHash } from "../limits/table/sip-hash.ts";
import { createDecide } from "../pipeline.ts";
import { createErrorLog, type Logger } from "../telemetry/log.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { createRequestIds } from "../upstream/request-fields.ts";
import { ifSame } from "./configured-files.ts";
import type { JudgedTrial } from "./reload-trials.ts";

export function clientAddressRules({ clientAddress }: RequestSettings): ClientAddressRules {
  const { header, trustedProxies, ipv6Prefix } = clientAddress;
  return { header, trustedProxies: new NetworkSet(trustedProxies.map(cidrOf)), ipv6Prefix };
}

interface RoutedSettings extends RequestSettings {
  readonly basePath: string;
  readonly readiness: Settings["readiness"];
  readonly unmatched: RequestRules["unmatched"];
  readonly upstream: { readonly url: string };
}

/** Returns null if no path is configured. */
export function quotaPathOf({ quota, basePath, auth, routes, counters }: Settings): QuotaPath | null {
  if (quota.path === null) return null;
  const path = basePath === "/" ? quota.path : basePath + quota.path;
  // One path for all tokens, so a token is checked as strictly here as it is anywhere.
  const { mode } = auth.rules.reduce<AuthDemand>(stricterOf, { mode: auth.mode, scopes: [] });
  return { path, mode, routes, areCountersShared: counters.redis !== null };
}

/** `quota`: null where callers are not told what they have left. */
export function requestRules(
  settings: RoutedSettings,
  clientAddress: ClientAddressRules,
  quota: QuotaPath | null,
  pathReader: PathReader = createPathReader(settings.routes, settings.basePath),
): RequestRules {
  const { path } = settings.readiness;
  const upstreamPath = new URL(settings.upstream.url).pathname;
  const { origins, preflights } = settings.cors;
  return {
    clientAddress,
    fieldNames: new FieldNames(settings.clientAddress.dropHeaders, settings.policies),
    pathReader,
    unmatched: settings.unmatched,
    maxBodyBytes: settings.maxBodyBytes,
    maxTargetBytes: settings.maxTargetBytes,
    cors: origins.length === 0 ? null : new AllowedOrigins(origins, preflights === "answer"),
    paths: { own: settings.basePath, upstream: upstreamPath === "/" ? "/" : upstreamPath.replace(/\/$/, "") },
    quota,
    readiness: path === null ? null : { path, reply: { current: probeReplies.ready } },
    onIgnored: () => {},
  };
}

/** What a runtime is made of. */
interface RuntimeParts {
  /** Null, by default: no configuration is judged. */
  readonly trial?: JudgedTrial | null;
  readonly rules: RequestRules;
  readonly runtimeRules: RulesInForce;
  readonly limiter: Limiter;
  readonly authenticator: Authenticator;
  readonly demandOf: DemandReader;
  readonly refusals: RefusalBudget;
  readonly fields: ResponseFields;
  readonly telemetry: Telemetry;
  readonly clock: Clock;
  readonly log: Logger;
  readonly forward: Runtime["forward"];
  readonly keyHash: SipHash;
  readonly logged: AccessLogSettings;
  readonly requestId: Settings["requestId"];
}

/** The name, or its hash by the key of the counters, which gateways with one store share; null: it is not logged. */
export function loggedName(name: string | null, how: LoggedSubject, keyHash: SipHash): string | null {
  switch (how) {
    case "plain":
      return name;
    case "hashed":
      // No key of a counter begins with this byte.
      return name === null ? null : hexOfKey(keyHash.key(Buffer.from(`\0${name}`)));
    case "off":
      return null;
  }
}

export function createRuntime(parts: RuntimeParts): Runtime {
  const { limiter, refusals, fields, telemetry, clock, log, forward, logged, keyHash, trial = null, requestId } = parts;
  const decide = createDecide({ ...parts, nowMs: clock.monotonicMs });
  return {
    source: "proxy",
    fields,
    tokenEnds: new TokenEnds(clock),
    subjectOf: ({ tokenName, subject }) => loggedName(tokenName ?? subject, logged.subject, keyHash),
    nowMs: clock.monotonicMs,
    newId: createRequestIds(),
    keepsIdOf: ({ isTrusted }) => isTrusted || requestId.keep === "any",
    decide: trial === null ? decide : trial.judged(decide),
    peekQuota: ({ key, counterKey }) => limiter.show({ client: key, counterKey }, clock.monotonicMs()),
    observeQuota: ({ key, counterKey }) => limiter.show({ client: key, counterKey }, clock.monotonicMs(), true),
    refreshQuota: (decision) => limiter.show(decision, clock.monotonicMs()),
    mayReject(client) {
      const nowMs = clock.monotonicMs();
      if (refusals.isSpent(client, nowMs)) return false;
      refusals.spend(client, nowMs);
      return true;
    },
    forward,
    onEnd: logged.access ? telemetry.finish : telemetry.finishUnlogged,
    onFailure: createErrorLog(log),
  };
}

/** What the listeners for checks of an ingress take from the settings. */
export interface CheckConfiguration {
  readonly runtime: Runtime;
  readonly quotaRuntime: Runtime;
  /** Who may ask, among others. */
  readonly settings: CheckSettings;
}

/** What was in force before a reload. */
interface Before {
  readonly settings: Settings;
  readonly files: { readonly secrets: Watched<TokenList> | null };
  readonly checks: CheckConfiguration | null;
}

/** Null: there are no listeners for checks. `traffic`: what its runtime is made of. */
export function configureChecks(
  settings: Settings,
  traffic: RuntimeParts,
  limiters: { readonly limiter: Limiter; readonly quotas: QuotaLimiter },
  secrets: Watched<TokenList> | null,
  before: Before | null,
): CheckConfiguration | null {
  const { extAuth, timeouts } = settings;
  if (extAuth.http === null && extAuth.grpc === null) return null;
  // An ingress names its peer in X-Forwarded-For, and forwards a client's own Forwarded, which must be ignored. It takes each
  // answer of 2xx for an admission, so no check is about the quota itself or the gateway, or answers a preflight.
  const clientAddress: ClientAddressRules = { ...traffic.rules.clientAddress, header: "x-forwarded-for" };
  const cors = traffic.rules.cors && new AllowedOrigins(settings.cors.origins);
  const rules = { ...traffic.rules, clientAddress, cors, quota: null, readiness: null };
  const parts = { ...traffic, limiter: limiters.limiter, rules };
  const runtime: Runtime = {
    ...createRuntime({ ...parts, forward: admitCheck }),
    source: "ext-auth",
    // The ingress forwards the id that it asks with, whoever has chosen it.
    keepsIdOf: () => true,
  };
  const decideQuota = createDecideQuota({ ...parts, limiter: limiters.quotas, nowMs: parts.clock.monotonicMs });
  const same = before?.files.secrets === secrets ? before : null;
  const callers = ifSame(same, settings, ({ extAuth }) => extAuth.trustedCallers)?.checks?.settings.callers;
  return {
    runtime,
    // Only `Checks.beginQuota` begins exchanges with it.
    quotaRuntime: { ...runtime, decide: (head, nowMs) => decideQuota(head as QuotaHead, nowMs) },
    settings: {
      callers: callers ?? createCallers(settings, secrets, traffic.log),
      clientAddress,
      denyStatus: extAuth.denyStatus,
      policyNames: limiters.quotas.policyNames,
      // Of a client's request, whose target the ingress adds again, with fields of its own.
      headBounds: { maxBytes: 2 * settings.maxHeaderBytes, maxFields: 250 },
      headTimeoutMs: timeouts.headMs,
      keepAliveTimeoutMs: timeouts.keepAliveMs,
      maxConnections: { http: extAuth.http?.maxConnections ?? 0, grpc: extAuth.grpc?.maxConnections ?? 0 },
    },
  };
}

function createCallers({ extAuth }: Settings, secrets: Watched<TokenList> | null, log: Logger): TrustedCallers {
  return new TrustedCallers({
    networks: new NetworkSet(extAuth.trustedCallers.map(cidrOf)),
    isSecret: secrets === null ? null : (text) => secrets.value.has(text),
    onFirstCallsRefused(caller, calls) {
      const keys = ["extAuth.trustedCallers", "extAuth.secretsFile"];
      log.warn(
        { keys, caller: canonicalHost(caller), calls },
        "every ext-auth call so far was refused: extAuth.trustedCallers and extAuth.secretsFile do not allow this caller",
      );
    },
  });
}
