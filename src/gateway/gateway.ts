// Starts the gateway: opens the engine that carries the traffic, and what there is once in a process: the admin listener
// and reloads. Closes all in order. The parts do not import each other. pipeline.ts decides about requests.
import type { Health } from "../admin/health.ts";
import { startAdmin } from "../admin/server.ts";
import { FileWatcher } from "../config/files.ts";
import type { SettingsSource } from "../config/load.ts";
import { endingSoonMs } from "../core/authenticator.ts";
import { readPeer } from "../core/client-address.ts";
import type { HostPort } from "../core/host-port.ts";
import type { ReloadCause, ReloadResult } from "../core/reload.ts";
import type { RuleKeeper } from "../core/rule-changes.ts";
import type { Settings } from "../core/settings.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Recent } from "../telemetry/recent/recent.ts";
import type { Addresses, BrokenOff, Carrier } from "./carrier.ts";
import { type EngineOptions, openEngine } from "./engine.ts";
import {
  createCounterMemory,
  ofMainThread,
  openCounters,
  sweepRegularly,
  type ThreadCounters,
} from "./open-counters.ts";
import { ListenError } from "./open-listeners.ts";
import { openRecent } from "./open-recent.ts";
import { Reloader } from "./reloader.ts";
import { RuleBook } from "./rule-book.ts";
import { logRules } from "./rule-log.ts";
import type { WorkersOptions } from "./threads/workers.ts";

export type { ReloadResult } from "../core/reload.ts";
export { ListenError } from "./open-listeners.ts";

/** With several workers, `names` and `authenticator` are those of the settings: functions cannot be posted to a thread. */
export interface GatewayOptions extends Omit<EngineOptions, "counters">, Omit<WorkersOptions, "counters"> {
  /** Loads the settings again. Default: they come from the caller alone. */
  readonly source?: SettingsSource;
  /** How often files are reread, and how long they must not change before they are used. Default: 1 s. */
  readonly rereadMs?: number;
}

export interface Gateway extends Addresses {
  readonly admin: HostPort;
  /** What happened in the last minutes. */
  readonly recent: Recent;
  /** That are set while it runs. */
  readonly rules: RuleKeeper;
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

/** Imports what starts threads only if there are any, because a start without it is faster. */
async function openCarrier(
  settings: Settings,
  files: FileWatcher,
  options: GatewayOptions & { readonly counters: ThreadCounters },
): Promise<Carrier> {
  if (settings.workers === 1) return openEngine(settings, files, options);
  const { startWorkers } = await import("./threads/workers.ts");
  return startWorkers(settings, files, options);
}

/** Adds to `open` what has to be closed, except the listeners that drain. */
async function start(settings: Settings, options: GatewayOptions, open: AsyncDisposableStack): Promise<Gateway> {
  const { log, source = null } = options;
  const files = new FileWatcher(options.rereadMs);
  // Imported only if there are snapshots, because a start without it is faster.
  const kept = settings.counters.snapshot === null ? null : await import("./snapshots.ts");
  const memory = await (kept?.restoreCounters(settings, options) ?? createCounterMemory(settings.counters.memoryBytes));
  const counters = openCounters(memory, ofMainThread(settings));
  open.defer(sweepRegularly(counters.table, options.clock));
  const rules = new RuleBook({ ...options, restored: [], survivesRestart: false });
  open.defer(() => rules.close());
  const carrier = await openCarrier(settings, files, { ...options, counters });
  logRules(rules, { log, settings: () => carrier.settings, keyHash: counters.keyHash });
  open.defer(() => carrier.close());
  await rules.publishTo(carrier);
  const { telemetry } = carrier;
  const recent = openRecent(carrier.recent, settings, options.clock, log);
  open.defer(() => recent.close());
  let status: Health["status"] = "starting";
  const admin = await startAdmin({
    ...settings.admin,
    clock: options.clock,
    metrics: (openMetrics) => telemetry.metrics.text(openMetrics),
    async health() {
      const { isServing, ...others } = await carrier.health();
      const list = carrier.listedTokens();
      const ending = list?.endingBefore(options.clock.wallMs() + endingSoonMs).length ?? 0;
      const tokens = list && { listed: list.size, ending };
      return { status: status === "ready" && !isServing ? "starting" : status, tokens, ...others };
    },
    isAlive: () => carrier.isAlive(),
    onError: (error) => log.error({ err: error }, "metrics scrape failed"),
    onFailure: (error) => log.error({ err: error }, "internal error"),
    api: null,
    certificate: null,
    peerKey: (address) => readPeer(address, carrier.clientAddress).key,
    onClosedForRoom: () => telemetry.connectionShed("admin", null),
  }).catch((error) => {
    throw new ListenError("admin", settings.admin, error);
  });
  open.defer(() => admin.close());
  const addresses = await carrier.listen(settings);
  const reloader = new Reloader(settings, carrier, { files, log, telemetry, source });
  await reloader.start();
  const adminAddress = { host: admin.host, port: admin.port };
  logListeners(log, addresses, adminAddress);
  carrier.announceStart();
  const snapshotParts = { ...options, counters, telemetry, slots: () => carrier.slots };
  const snapshots = kept?.startSnapshots(settings, snapshotParts) ?? null;
  if (snapshots !== null) open.defer(() => snapshots.stop());
  status = "ready";
  return {
    ...addresses,
    admin: adminAddress,
    recent,
    rules,
    reload: (wanted) => reloader.to(wanted),
    reloadFromSource: (cause) => reloader.again(cause),
    async drain() {
      status = "draining";
      const reloaded = reloader.close();
      telemetry.metrics.setDraining();
      // Announced early, so that clients are not sending a request when their idle connections are closed.
      carrier.announceEnd();
      const { delayMs, timeoutMs } = carrier.settings.drain;
      await new Promise((resolve) => setTimeout(resolve, delayMs));
      logBrokenOff(log, await carrier.drain(timeoutMs));
      await snapshots?.writeLast();
      await reloaded;
      await open.disposeAsync();
    },
  };
}

function logListeners(log: Logger, { traffic, extAuth, grpc }: Addresses, admin: HostPort): void {
  log.info({ listener: "traffic", ...traffic }, "listening");
  log.info({ listener: "admin", ...admin }, "listening");
  if (extAuth !== null) log.info({ listener: "ext-auth", ...extAuth }, "listening");
  if (grpc !== null) log.info({ listener: "grpc", ...grpc }, "listening");
}

function logBrokenOff(log: Logger, { requests, calls }: BrokenOff): void {
  if (calls > 0) log.warn({ calls }, "drain timeout over, ext-auth checks broken off");
  if (requests > 0) log.warn({ requests }, "drain timeout over, requests broken off");
}
