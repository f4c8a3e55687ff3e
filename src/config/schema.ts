// Puts the topics of the configuration together: all keys, what contradicts what, and the settings that valid values become.
// Tests compare the packaged headgate.yaml, the JSON Schema and docs/configuration.md with it.
import { unconfirmedEnds } from "../core/reload.ts";
import { maxThreads, type Settings } from "../core/settings.ts";
import { auth, validateAuth } from "./auth.ts";
import { counters, toStore, validateSnapshot, validateStore } from "./counters.ts";
import { defaultOf, nodeAt, type Parsed, section, type WordsOfOthers } from "./definition.ts";
import { choice, duration, flag, orAuto, orNull, percentage, wholeNumber } from "./leaves.ts";
import {
  admin,
  extAuth,
  listen,
  validateAdmin,
  validateConnections,
  validateExtAuth,
  validateListenTls,
  validatePorts,
  validateProxyScheme,
} from "./listeners.ts";
import { enforcement, policies, toPolicy, wordsForPolicies } from "./policies.ts";
import { type PoliciesInContext, validatePolicies } from "./policy-contradictions.ts";
import {
  basePath,
  clientAddress,
  cors,
  errors,
  fields,
  maxBodyBytes,
  maxHeaderBytes,
  maxTargetBytes,
  quota,
  readiness,
  refusals,
  requestId,
  resetFormat,
  routes,
  timeouts,
  unmatched,
  validateReadiness,
} from "./requests.ts";
import { type TlsInContext, upgrade, upstream, validateUpstreamAddresses, validateUpstreamTls } from "./upstream.ts";
import {
  type ConfigError,
  describe,
  type IsSound,
  originOf,
  type Raw,
  type Refuse,
  rawAt,
  valueError,
} from "./written.ts";

const workers = orAuto(
  wholeNumber(1, { from: 1, to: maxThreads })(
    "Threads that carry traffic; auto uses as many as the container may use processors.",
  ),
  1,
);

const wordsForConfiguration: WordsOfOthers = {
  ...wordsForPolicies,
  "shadow dryRun enforce": ["enforcement"],
  "largeClientHeaderBuffers maxHeaderSize maxRequestHeadersKb bufsize": ["maxHeaderBytes", "maxTargetBytes"],
  "errorFormat errorBody errorPage problemJson problemDetails": ["errors.format"],
  "threads nbthread workerProcesses workerThreads": ["workers"],
  "zoneSize tableSize stickTable": ["counters.memory"],
  "redis valkey": ["counters.redis"],
  "maxBodySize clientMaxBodySize bodyLimit bodySizeLimit maxRequestBodySize maxRequestBodyBytes": ["maxBodyBytes"],
  "upstreams target backend backends proxyPass proxyTo service services server servers": ["upstream.url"],
  "bind address": ["listen.host"],
  "path paths prefix pathPrefix location locations": ["routes"],
  "tls ssl https cert certFile certificate sslCertificate keyFile privateKey sslCertificateKey": ["listen.tls"],
  "trustProxy trustedProxies trustedIps setRealIpFrom forwardedHeaders realIpHeader": ["clientAddress.trustedProxies"],
  proxyConnectTimeout: ["upstream.connectTimeout"],
  proxyReadTimeout: ["upstream.responseTimeout", "upstream.bodyTimeout"],
  "clientHeaderTimeout clientBodyTimeout readTimeout requestTimeout keepAliveTimeout idleTimeout": ["timeouts"],
  "logging logger logLevel accessLog": ["log"],
  "token tokens apiKey apiKeys": ["auth.tokensFile"],
  "shutdownTimeout gracefulShutdown gracePeriod": ["drain.timeout"],
  "headers standardHeaders legacyHeaders": ["fields"],
};

const trial = section("Tries what SIGHUP and a changed file bring: the configuration before it comes back by itself.", {
  confirmWithin: orNull(
    duration("5m", { from: "1s", to: "24h" })(
      "Time within which somebody has to confirm it; null: it is not on trial.",
    ),
  ),
  unlessRefused: orNull(
    percentage("5%", { from: 0, to: 99 })(
      "It is taken back if it throttles more than this share, and 20 requests, of what the one before would admit.",
    ),
  ),
  unconfirmed: choice(
    "takeBack",
    unconfirmedEnds,
  )("What happens if nobody confirms it in time: takeBack, or keep, which stands for a confirmation."),
});

export const schema = section(
  "The configuration of Headgate.",
  {
    listen: { ...listen, wordsOfOthers: { "bind address ip": ["host"] } },
    ...{ admin, basePath, upstream, upgrade, routes, unmatched, clientAddress },
    ...{ policies, enforcement, counters, workers, refusals, auth },
    cors: { ...cors, wordsOfOthers: { "origin allowedOrigins allowOrigins allowOrigin": ["origins"] } },
    ...{ errors, requestId, fields, resetFormat, quota, readiness, maxBodyBytes, maxHeaderBytes, maxTargetBytes },
    timeouts: { ...timeouts, wordsOfOthers: { "idle keepAliveTimeout": ["keepAlive"], "request read": ["body"] } },
    extAuth,
    reload: section("How a changed configuration is put into force while the gateway runs (SIGHUP does it, too).", {
      watch: flag(true)("Reload when the configuration file has changed."),
      trial,
    }),
    drain: section("The shutdown after SIGTERM or SIGINT.", {
      delay: duration("0s", { from: "0", to: "1h" })(
        "Time during which readiness fails and new requests are still accepted.",
      ),
      timeout: duration("25s", { from: "1ms", to: "1h" })(
        "Maximum time for the requests in progress to finish, after that.",
      ),
    }),
    log: section("The log: JSON lines on standard output.", {
      level: choice("info", ["debug", "info", "warn", "error", "silent"])("Lowest level that is logged."),
      access: flag(true)("Log one line for each request."),
      time: choice("unix", ["unix", "iso"])(
        "Time of a line: Unix milliseconds, or a text as 2026-11-24T17:30:24.123Z.",
      ),
      subject: choice("plain", ["plain", "hashed", "off"])("How the name of a verified token is logged."),
    }),
  },
  wordsForConfiguration,
);

type ParsedConfig = Parsed<typeof schema>;

export function pairErrors(values: ParsedConfig, raw: Raw | undefined, isSound: IsSound): ConfigError[] {
  return collect(raw, isSound, (refuse) => {
    validateConnections(values, refuse);
    validateHead(values, refuse);
    validateReadiness(values, refuse);
    validatePorts(values, refuse);
    validateExtAuth(values, refuse);
    validateProxyScheme(values, refuse);
    validateListenTls(values, refuse);
    validateAdmin(values, refuse);
    validateAuth(values, refuse);
    validatePolicies(values, raw, refuse);
    validateSnapshot(values.counters, refuse);
    validateStore(values.counters, raw, refuse);
    validateWorkers(values, refuse);
    validateTrial(values.reload, refuse);
    validateUpstreamTls(values.upstream, refuse);
    validateUpstreamAddresses(values, refuse, isSound);
  });
}

interface PluginValues extends PoliciesInContext {
  readonly upstream: TlsInContext;
}

/** The same for the options of the Fastify plugin, which has no listeners of its own. */
export function pluginPairErrors(values: PluginValues, raw: Raw | undefined, isSound: IsSound): ConfigError[] {
  return collect(raw, isSound, (refuse) => {
    validateAuth(values, refuse);
    validatePolicies(values, raw, refuse);
    validateUpstreamTls(values.upstream, refuse);
  });
}

/** A target is a part of its head. */
function validateHead({ maxHeaderBytes, maxTargetBytes }: ParsedConfig, refuse: Refuse): void {
  if (maxTargetBytes <= maxHeaderBytes) return;
  const expected = `at most maxHeaderBytes (${maxHeaderBytes}); lower it, or raise maxHeaderBytes`;
  refuse("maxTargetBytes", expected, "maxHeaderBytes");
}

/** What protects the upstream is divided among the workers. */
function validateWorkers({ workers, upstream, upgrade }: ParsedConfig, refuse: Refuse): void {
  if (workers === "auto") return;
  const bounds = { "upstream.maxConnections": upstream.maxConnections, "upgrade.maxTunnels": upgrade.maxTunnels };
  for (const [key, most] of Object.entries(bounds)) {
    if (workers > most) refuse("workers", `at most ${key} (${most}); lower it, or raise ${key}`, key);
  }
}

function validateTrial({ trial }: ParsedConfig["reload"], refuse: Refuse): void {
  const { confirmWithinMs, unlessRefused, unconfirmed } = trial;
  if (confirmWithinMs !== null) return;
  const key = "reload.trial.confirmWithin";
  const others = { unlessRefused: unlessRefused !== null, unconfirmed: unconfirmed !== "takeBack" };
  for (const [other, isSet] of Object.entries(others)) {
    const at = `reload.trial.${other}`;
    if (isSet) refuse(key, `a duration, since ${at} is set; set one, or remove ${at}`, at);
  }
}

function collect(raw: Raw | undefined, isSound: IsSound, find: (refuse: Refuse) => void): ConfigError[] {
  const errors: ConfigError[] = [];
  find((key, expected, ...others) => {
    if (!isSound(key, ...others)) return;
    errors.push(valueError(originOf(raw, key, ...others), key, foundAt(raw, key), expected));
  });
  return errors;
}

function foundAt(raw: Raw | undefined, key: string): string {
  const path = key.split(".");
  const node = nodeAt(schema, path);
  const written = rawAt(raw, path) ?? (node?.kind === "leaf" ? defaultOf(node) : undefined);
  return written === undefined ? "nothing" : describe(written, node?.kind === "leaf" && node.isSecret);
}

export function toSettings(values: ParsedConfig, processors: () => number): Settings {
  const { listen, admin, extAuth, counters } = values;
  const { path, everyMs } = counters.snapshot;
  const { cert, key } = listen.tls;
  const own = admin.tls;
  const policies = values.policies.map(toPolicy);
  return {
    ...values,
    listen: { ...listen, tls: cert === null || key === null ? null : { ...listen.tls, cert, key } },
    admin: {
      ...admin,
      tls: own.cert === null || own.key === null ? null : { ...own, cert: own.cert, key: own.key },
    },
    policies,
    extAuth: {
      ...extAuth,
      http: extAuth.http.enabled ? extAuth.http : null,
      grpc: extAuth.grpc.enabled ? extAuth.grpc : null,
    },
    counters: {
      memoryBytes: counters.memory,
      snapshot: path === null ? null : { path, everyMs },
      redis: counters.store === "redis" ? toStore(counters.redis, policies) : null,
    },
    workers: values.workers === "auto" ? autoWorkers(values, processors()) : values.workers,
  };
}

/** No more than can have a connection to the upstream and a tunnel each. */
function autoWorkers({ upstream, upgrade }: ParsedConfig, processors: number): number {
  return Math.max(1, Math.min(processors, maxThreads, upstream.maxConnections, upgrade.maxTunnels));
}
