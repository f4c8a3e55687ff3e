// Starts the gateway: opens the engine that carries the traffic, and what there is once in a process: the admin listener
// and reloads. Closes all in order. The parts do not import each other. pipeline.ts decides about requests.
import type { SignInCode } from "../admin/sign-in-code.ts";
import { FileWatcher } from "../config/files.ts";
import type { SettingsSource } from "../config/load.ts";
import type { HostPort } from "../core/ip-address.ts";
import type { ReloadCause, ReloadResult, TrialTerms } from "../core/reload.ts";
import type { Settings } from "../core/settings.ts";
import { createErrorLog, type Logger } from "../telemetry/log.ts";
import { HistoryRow } from "../telemetry/recent/history.ts";
import { Recent } from "../telemetry/recent/recent.ts";
import { RecentMemory } from "../telemetry/recent/recent-memory.ts";
import type { Clients } from "./clients.ts";
import { openAdminFiles } from "./control/admin-files.ts";
import { GatewayControl } from "./control/control.ts";
import { openAdmin } from "./control/open-admin.ts";
import { Forgiving } from "./forgiving.ts";
import { createCounterMemory, ofMainThread, openCounters, sweepRegularly } from "./open-counters.ts";
import type { Addresses, BrokenOff } from "./open-listeners.ts";
import { Reloader, type TrialControl } from "./reloader.ts";
import { logRules, RuleBook } from "./rule-book.ts";
import { createSharing } from "./sharing.ts";
import { reportRegularly } from "./thread-history.ts";
import type { ThreadPoolOptions } from "./threads/thread-pool.ts";
import { openWorkers } from "./workers.ts";

export type { ReloadResult } from "../core/reload.ts";
export { ListenError } from "./open-listeners.ts";

/** Threads that carry traffic count from 1. */
const mainRow = 0;

type GivenHere =
  | "counters"
  | "rules"
  | "runtimeRules"
  | "ruleCounts"
  | "sharedRules"
  | "readForgiven"
  | "forgivenUntil"
  | "recentBytes";

/** With several workers, `names` and `authenticator` are those of the settings: functions cannot be posted to a thread. */
export interface GatewayOptions extends Omit<ThreadPoolOptions, GivenHere> {
  /** The memory of the process, as the system counts it. */
  readonly residentBytes: () => number;
  /** Loads the settings again. Default: they come from the caller alone. */
  readonly source?: SettingsSource;
  /** How often files are reread, and how long they must not change before they are used. Default: 1 s. */
  readonly rereadMs?: number;
  /** Of a link to the console that the caller prints; by default there is none. */
  readonly signIn?: SignInCode | undefined;
  /** The longest pause between two readings of the metrics. Default: half a second. */
  readonly maxScrapePauseMs?: number;
}

export interface Gateway extends Addresses {
  readonly admin: HostPort;
  readonly clients: Clients;
  /** What happened in the last minutes. */
  readonly recent: Recent;
  readonly rules: RuleBook;
  /** Forgets what was counted of somebody: see Forgiving. */
  readonly forgive: Forgiving["forgive"];
  /**
   * Puts other settings into force, or changes nothing if a file that they name cannot be used. Closes no connection of
   * a client and loses no count. `terms`: of a trial, after which the settings before it come back unless it is confirmed.
   */
  reload(settings: Settings, terms?: TrialTerms | null): Promise<ReloadResult>;
  /** The same with the settings of the source, which are loaded again, and with all files as they are now. */
  reloadFromSource(cause: ReloadCause): Promise<ReloadResult>;
  readonly trial: TrialControl;
  /**
   * Makes readiness fail. Accepts traffic for `drain.delay`, with each response closing its connection, then no new
   * connections. Resolves when the requests in flight have ended, or `drain.timeout` has expired, and all is closed.
   */
  drain(): Promise<void>;
  /** Resolves when a drain has begun, because of a call of `drain` or of the admin API. */
  readonly drainBegan: Promise<void>;
}

/** Rejects with a ListenError or a FilesError, with everything closed. */
export async function startGateway(settings: Settings, options: GatewayOptions): Promise<Gateway> {
  const open = new AsyncDisposableStack();
  return start(settings, options, open).catch(async (error) => {
    // The caller has to know why the gateway has not started.
    await open.disposeAsync().catch(createErrorLog(options.log));
    throw error;
  });
}

/** Adds to `open` what has to be closed, except the listeners that drain. */
async function start(settings: Settings, options: GatewayOptions, open: AsyncDisposableStack): Promise<Gateway> {
  const { log } = options;
  const parts = await openAllButListeners(settings, options, open);
  const { workers, recent, rules, forgiving, reloader, snapshots } = parts;
  const { serving } = workers;
  const drains = new Drains(async () => {
    control.draining();
    const reloaded = reloader.close();
    serving.telemetry.metrics.setDraining();
    // Announced early, so that clients are not sending a request when their idle connections are closed.
    serving.announceEnd();
    const { delayMs, timeoutMs } = workers.settings.drain;
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    logBrokenOff(log, await serving.drain(timeoutMs));
    await snapshots?.writeLast();
    await reloaded;
    await open.disposeAsync();
  });
  const control = new GatewayControl({
    ...{ ...options, ...parts },
    async forgive(key) {
      const forgiven = await forgiving.forgive(key);
      snapshots?.writeSoon();
      return forgiven;
    },
    drain: () => void drains.begin(),
  });
  open.defer(() => control.close());
  const admin = await openAdmin(settings.admin, { ...options, ...parts, control });
  open.defer(() => admin.close());
  const addresses = await serving.listen(settings);
  await reloader.start();
  logListeners(log, addresses, admin);
  serving.announceStart();
  control.started();
  drains.ready();
  return {
    ...addresses,
    admin: { host: admin.host, port: admin.port },
    recent,
    rules,
    clients: workers.main.clients,
    forgive: (name) => forgiving.forgive(name),
    reload: (wanted, terms) => reloader.to(wanted, terms),
    reloadFromSource: (cause) => reloader.again(cause),
    trial: reloader,
    drain: () => drains.begin(),
    drainBegan: drains.began,
  };
}

/** Opens everything but listeners. */
async function openAllButListeners(settings: Settings, options: GatewayOptions, open: AsyncDisposableStack) {
  const { log, clock, source = null } = options;
  const files = new FileWatcher(options.rereadMs);
  // Imported only if there are snapshots, because a start without it is faster.
  const { snapshot } = settings.counters;
  const kept = snapshot && { ...(await import("./snapshots.ts")), snapshot };
  const restored = await kept?.restoreCounters(kept.snapshot, settings, options);
  const memory = restored?.memory ?? createCounterMemory(settings.counters.memoryBytes);
  const counters = openCounters(memory, ofMainThread(settings));
  open.defer(sweepRegularly(counters.table, clock));
  const rules = new RuleBook({ ...options, restored: restored?.rules ?? [], survivesRestart: kept !== null });
  open.defer(() => rules.close());
  const forgiving = new Forgiving();
  const sharing = await createSharing(settings, { ...options, restored: rules.list(), rules, forgiving });
  open.defer(() => sharing?.rules.close());
  sharing?.open();
  const recentMemory = new RecentMemory(settings.admin.recent);
  const workers = await openWorkers(settings, files, {
    ...{ ...options, counters, rules, runtimeRules: rules.inForce },
    recentBytes: () => recentMemory.bytes,
    ruleCounts: () => rules.counts(),
    sharedRules: sharing && (() => sharing.rules.figures()),
    readForgiven: () => forgiving.read(),
  });
  open.defer(() => workers.serving.close());
  await rules.publishTo(workers, sharing?.rules);
  forgiving.begin(workers, sharing?.rules);
  // Waits a little for what gateways share.
  await sharing?.reached();
  await Promise.all([rules.taken(), forgiving.taken()]);
  logRules(rules, log, () => workers.settings, counters.keyHash);
  const { serving } = workers;
  const recent = new Recent({
    ...{ ...options, threads: serving.recent, recentMemory },
    sizes: () => workers.settings.admin.recent,
    policies: () => serving.policyStats().map(({ policy, outcomes }) => ({ policy: policy.name, outcomes })),
    onFailure: createErrorLog(log),
  });
  open.defer(() => recent.close());
  // Worker threads write their own rows.
  if (settings.workers > 1) open.defer(reportRegularly(new HistoryRow(serving.recent.memory, mainRow), null));
  const adminFiles = await openAdminFiles(settings.admin, { files, log, clock });
  open.defer(() => adminFiles.close());
  const { telemetry } = serving;
  const reloader = new Reloader(settings, workers, { files, adminFiles, log, clock, telemetry, source });
  const trialSinceMs = () => reloader.trial?.sinceMs ?? null;
  const kinds = { slots: () => workers.main.configuration.limiter.slots, rules: () => rules.list(), trialSinceMs };
  const snapshots = kept && new kept.Snapshots(kept.snapshot, { ...options, counters, telemetry, ...kinds });
  if (snapshots !== null) open.defer(() => snapshots.stop());
  rules.onChange(() => snapshots?.writeSoon());
  reloader.subscribe({
    trialChanged(event) {
      snapshots?.writeSoon();
      if (event.kind === "taken_back") void sharing?.tellTakenBack(event.reason);
    },
  });
  return { rules, forgiving, sharing, counters, workers, recent, adminFiles, reloader, snapshots };
}

/** There is one drain, whoever asks for it first. One that is asked for during the start begins after it. */
class Drains {
  readonly #how: () => Promise<void>;
  readonly #began = Promise.withResolvers<void>();
  readonly #ready = Promise.withResolvers<void>();
  #drained: Promise<void> | null = null;

  constructor(how: () => Promise<void>) {
    this.#how = how;
  }

  /** There is something to drain. */
  ready(): void {
    this.#ready.resolve();
  }

  get began(): Promise<void> {
    return this.#began.promise;
  }

  begin(): Promise<void> {
    this.#began.resolve();
    this.#drained ??= this.#ready.promise.then(this.#how);
    return this.#drained;
  }
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
