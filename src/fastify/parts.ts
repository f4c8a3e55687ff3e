// The composition root of the plugin: the gateway's own parts, made from the options.

import type { FastifyInstance } from "fastify";
import { createDemandReader } from "../auth/authenticator.ts";
import { FilesError, FileWatcher } from "../config/files.ts";
import { uncheckedPaths } from "../config/unchecked-paths.ts";
import { configurationWarnings, type WarnedSettings } from "../config/warnings.ts";
import type { Authenticator } from "../core/authentication.ts";
import type { ClientAddressRules } from "../core/client-address.ts";
import type { OnShareExceeded } from "../core/client-share.ts";
import type { Clock } from "../core/clock.ts";
import { failureCode } from "../core/failure.ts";
import type { Files } from "../core/file-group.ts";
import type { RequestRules } from "../core/request-head.ts";
import { ResponseFields } from "../core/response-fields.ts";
import { RulesInForce } from "../core/rules-in-force.ts";
import { RuntimeRef } from "../exchange/exchange.ts";
import { openAuthenticator } from "../gateway/configured-files.ts";
import { createCounterMemory, createLimiter, openCounters, sweepRegularly } from "../gateway/open-counters.ts";
import { clientAddressRules, createRuntime, requestRules } from "../gateway/runtimes.ts";
import { RefusalBuckets } from "../limits/refusal-buckets.ts";
import type { Logger } from "../telemetry/log.ts";
import { noTraffic } from "../telemetry/scraped-metrics.ts";
import { createTelemetry, type ThreadScrape } from "../telemetry/telemetry.ts";
import { Gate, handOver } from "./gate.ts";
import { OptionsError, type PluginSettings } from "./plugin-options.ts";
import type { UpstreamProxy } from "./proxy/mount.ts";

export interface PartsOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly version: string;
  readonly nodeVersion: string;
  readonly clientConnections: () => number;
  readonly authenticator?: Authenticator;
}

export interface OpenedPlugin {
  readonly gate: Gate;
  readonly metrics: ThreadScrape["text"];
  /** Adds the routes that lead to the upstream, if there is one. */
  mount(app: FastifyInstance): void;
  close(): void;
}

/** Rejects with an OptionsError if a file cannot be used. */
export async function openPlugin(settings: PluginSettings, options: PartsOptions): Promise<OpenedPlugin> {
  const { clock, log } = options;
  const clientAddress = clientAddressRules(settings);
  logFindings(settings, log);
  const counters = openCounters(createCounterMemory(settings.counters.memoryBytes));
  const endSweep = sweepRegularly(counters.table, clock);
  const limiter = createLimiter({ ...settings, basePath: "/" }, { clock, counters }, null);
  const files = new FileWatcher();
  const authenticator = options.authenticator ?? (await openAuthenticator(settings, files, log, clock).catch(rethrow));
  const telemetry = createTelemetry({ ...options, droppedLogLines: () => 0 });
  telemetry.metrics.addSeries({ routes: settings.routes, policies: settings.policies.map(({ name }) => name) });
  const proxy = await openUpstream(settings, files, log, telemetry.shareExceeded).catch((error) => {
    authenticator.close();
    return rethrow(error);
  });
  const { text: metrics } = telemetry.scraping({
    ...options,
    // The plugin has no tunnels, and reads no body before there is a connection.
    ...noTraffic,
    upstreamConnections: () => proxy?.figures() ?? noTraffic.upstreamConnections(),
    upstreamAddresses: () => ({ ...noTraffic.upstreamAddresses(), available: proxy === null ? 0 : 1 }),
    limiter,
    counters: () => limiter.counterFigures(),
    tokens: () => authenticator.tokens(),
    certificate: () => null,
    // The app's server reads them.
    sharesReads: () => false,
    store: null,
  });
  const rules = pluginRules(settings, clientAddress);
  const fields = new ResponseFields(settings, clock, rules.cors);
  const refusals = new RefusalBuckets(settings.refusals);
  const demandOf = createDemandReader(settings.auth, settings.routes, "/");
  const runtimeParts = {
    ...{ rules, limiter, authenticator, demandOf, refusals, fields, telemetry, clock, log, forward: handOver },
    // Nobody sets rules in an app.
    runtimeRules: new RulesInForce(),
    ...{ keyHash: counters.keyHash, logged: settings.log, requestId: settings.requestId },
  };
  const runtime = new RuntimeRef(createRuntime(runtimeParts));
  const readUnmatched = () => ({ kind: "unmatched" }) as const;
  const outside = { ...rules, pathReader: { readPlain: readUnmatched, read: readUnmatched } };
  const leftOut = new RuntimeRef(createRuntime({ ...runtimeParts, rules: outside }));
  const gate = new Gate({ runtime, leftOut, clientAddress, lingerMs: settings.timeouts.lingerMs });
  return {
    gate,
    metrics,
    mount(app) {
      const { upstreamFailed: onError, upstreamAnswered: onAnswer } = telemetry;
      proxy?.mount(app, { onError, onAnswer, nowMs: clock.monotonicMs, fieldNames: rules.fieldNames });
    },
    close() {
      endSweep();
      gate.end();
      proxy?.close();
      authenticator.close();
      telemetry.close();
    },
  };
}

/** Only whoever has an upstream loads what it takes. */
async function openUpstream(
  settings: PluginSettings,
  files: Files,
  log: Logger,
  onShareExceeded: OnShareExceeded,
): Promise<UpstreamProxy | null> {
  if (settings.upstream === null) return null;
  const { openProxy } = await import("./proxy/mount.ts");
  return openProxy(settings, settings.upstream, files, log, onShareExceeded);
}

const ofTheApp = { basePath: "/", readiness: { path: null } };

function pluginRules(settings: PluginSettings, clientAddress: ClientAddressRules): RequestRules {
  const upstream = settings.upstream ?? { url: "http://app" };
  return requestRules({ ...settings, ...ofTheApp, unmatched: "leave", upstream }, clientAddress, null);
}

function logFindings(settings: PluginSettings, log: Logger): void {
  for (const detail of configurationWarnings(warnedOf(settings))) log.warn({ detail }, "configuration warning");
  log.info(uncheckedPaths(settings), "limited paths without a verified token");
}

/** Leaves out what the app does itself, of which the plugin does not warn. */
function warnedOf(settings: PluginSettings): WarnedSettings {
  return { ...settings, ...ofTheApp, unmatched: "leave", listen: null, admin: null, extAuth: null, counters: null };
}

function rethrow(error: unknown): never {
  if (!(error instanceof FilesError)) throw error;
  throw new OptionsError(
    error.errors.map((each) => {
      if (each.kind === "unreadable") return `${each.key}: ${each.file}: cannot be read: ${failureCode(each.cause)}`;
      const line = each.line === undefined ? "" : `:${each.line}`;
      return `${each.key}: ${each.file}${line}: found ${each.found}, expected ${each.expected}`;
    }),
  );
}
