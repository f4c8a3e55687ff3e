// Carries the traffic in one thread: the parts made from the settings, the traffic listener and the listeners for checks.
// What exists once in a process (admin listener, signals, reloads, the log's output) is not here.
import type { Authenticator } from "../core/authentication.ts";
import { Cells, OutcomeMemory } from "../core/cells.ts";
import type { PeerConnections } from "../core/client-address.ts";
import { ClientBytes } from "../core/client-share.ts";
import type { Clock } from "../core/clock.ts";
import type { Files } from "../core/file-group.ts";
import type { PolicyStats } from "../core/limiter.ts";
import { probeReplies } from "../core/local-reply.ts";
import type { RuleAction, RuleChange } from "../core/rules.ts";
import { RulesInForce } from "../core/rules-in-force.ts";
import { type Settings, shareOf } from "../core/settings.ts";
import type { SharedRulesFigures } from "../core/store-link.ts";
import type { AddressState } from "../core/upstream.ts";
import { TextWrites } from "../exchange/socket-writes.ts";
import type { SharedReads } from "../exchange/sockets.ts";
import type { ForgivenName } from "../limits/forgive.ts";
import type { ForgivenNotice } from "../limits/store/shared-rules.ts";
import { LocalPeerConnections } from "../listener/connection-limiter.ts";
import { type ConnectionCount, LocalConnectionCount } from "../listener/connection-table.ts";
import type { TrafficListener } from "../listener/traffic-listener.ts";
import { keptTarget, type Logger, loggedRequestId } from "../telemetry/log.ts";
import { HistoryRow } from "../telemetry/recent/history.ts";
import type { RecentThreads } from "../telemetry/recent/recent.ts";
import { ThreadRecent } from "../telemetry/recent/thread-recent.ts";
import type { RecentBytes, ThreadFigures } from "../telemetry/scraped-metrics.ts";
import type { StoreSightings } from "../telemetry/store-log.ts";
import {
  createTelemetry,
  type Telemetry,
  type ThreadCells,
  type ThreadReport,
  type ThreadScrape,
} from "../telemetry/telemetry.ts";
import { maxWaitingBodyBytes } from "../upstream/forward.ts";
import { type NameOptions, namesBySystem } from "../upstream/name-lookup.ts";
import { Clients } from "./clients.ts";
import {
  type Configuration,
  closeFilesAndUpstream,
  configure,
  InForce,
  openFilesAndUpstream,
} from "./configuration.ts";
import { certificateInUse } from "./configured-files.ts";
import type { ChosenSlots, ThreadCounters } from "./open-counters.ts";
import {
  type Addresses,
  type BrokenOff,
  type CheckListeners,
  chooseReads,
  createTraffic,
  ListenError,
  type ListenSettings,
  openChecks,
} from "./open-listeners.ts";
import { connectStore, createStore } from "./open-store.ts";
import type { SettingsOnTrial } from "./reload-trials.ts";
import type { ThreadContext } from "./thread-context.ts";
import { reportRegularly } from "./thread-history.ts";

export interface EngineOptions {
  readonly counters: ThreadCounters;
  /** The slots of the policies, as the main thread has chosen them. Default: they are chosen here. */
  readonly chosen?: ChosenSlots;
  /** Null, the default: no configuration is on trial. */
  readonly onTrial?: SettingsOnTrial | null;
  readonly clock: Clock;
  readonly log: Logger;
  /** For warnings about the configuration, and for reloads and errors of files. Default: `log`. */
  readonly notices?: { readonly configuration: Logger; readonly files: Logger };
  /** The number of lines that the log's destination has dropped. */
  readonly droppedLogLines: () => number;
  /** The rules that hold. Default: another thread tells them, and there are none yet. */
  readonly runtimeRules?: RulesInForce;
  /** Of all rules of the process. Default: another thread tells them. */
  readonly ruleCounts?: () => Readonly<Record<RuleAction, number>>;
  /** Of what gateways share of rules; null: they share nothing. Default: another thread tells them. */
  readonly sharedRules?: (() => SharedRulesFigures) | null;
  /** Memory for what the process remembers of the last minutes. Default: another thread tells it. */
  readonly recentBytes?: () => RecentBytes;
  /** As in StoreOptions. */
  readonly readForgiven?: () => Promise<unknown>;
  /** The position in the log of gateways up to which the table has forgotten what was forgiven. Default: 0. */
  readonly forgivenUntil?: number;
  readonly version: string;
  readonly nodeVersion: string;
  /** Default: names of the upstream are resolved by the system. */
  readonly names?: NameOptions;
  /** Default: made from the settings. */
  readonly authenticator?: Authenticator;
  /** How long a client may keep an HTTP/2 connection open after its GOAWAY. Default: 2 s. */
  readonly http2LingerMs?: number;
  /** Default: no other thread has connections. */
  readonly connectionCount?: ConnectionCount;
  /** Default: session tickets can be used with this thread alone. */
  readonly ticketSecret?: Uint8Array;
  readonly peerConnections?: PeerConnections;
  /** For the log, where other threads use the same store. */
  readonly storeSightings?: StoreSightings;
  /** Where this thread counts for the history. Default: there is no other thread. */
  readonly history?: HistoryRow;
  /** False: connections are read as streams. Default: into one buffer that all share, if this Node can. */
  readonly sharedReads?: boolean;
}

/** A configuration that can be put into force. Either `commit` or `drop` has to be called. */
export interface Prepared {
  /** Puts it into force in one turn of the event loop. */
  commit(): void;
  drop(): void;
  /** For the threads that carry the traffic, if this thread does not. */
  readonly chosen?: ChosenSlots;
}

/** Opens no listener. Rejects with a FilesError, with everything closed. */
export async function openEngine(settings: Settings, files: Files, options: EngineOptions): Promise<Engine> {
  const { clock, log, counters, notices = { configuration: log, files: log } } = options;
  const textWrites = new TextWrites();
  // Waits for a connection of its own, so the files are opened meanwhile.
  const choosing = options.sharedReads === false ? null : chooseReads(notices.configuration, textWrites);
  const waitingBodies = new ClientBytes(shareOf(maxWaitingBodyBytes, settings.workers));
  const cells = new Cells();
  const { history = new HistoryRow(HistoryRow.createMemory(), 0) } = options;
  const forms = { clock, targetOf: keptTarget, requestIdOf: loggedRequestId };
  const recent = new ThreadRecent({ sizes: settings.admin.recent, history, ...forms });
  const telemetry = createTelemetry({
    ...{ ...options, cells, recent, workers: settings.workers },
    store: settings.counters.redis && { sightings: options.storeSightings },
  });
  const store = await createStore(settings, clock, counters, telemetry, options.readForgiven);
  store?.forgivenUntil(options.forgivenUntil ?? 0);
  const context: ThreadContext = {
    settings: { current: settings },
    readiness: { current: probeReplies.starting },
    ...{ clock, log, notices, files, counters, store, telemetry, recent, textWrites, waitingBodies },
    outcomes: new OutcomeMemory(cells),
    runtimeRules: options.runtimeRules ?? new RulesInForce(),
    names: options.names ?? namesBySystem,
    ticketSecret: options.ticketSecret ?? null,
    authenticator: options.authenticator,
  };
  const parts = await openFilesAndUpstream(settings, context, null).catch((error) => {
    telemetry.close();
    throw error;
  });
  if (store !== null) await connectStore(store);
  const inForce = new InForce(configure(parts, context, null, options.chosen, options.onTrial), context);
  const reads = await choosing;
  const { connectionCount = new LocalConnectionCount(), peerConnections = new LocalPeerConnections() } = options;
  const traffic = await createTraffic(context, inForce, reads, connectionCount, peerConnections, options.http2LingerMs);
  const sources = sourcesOf(context, inForce, options);
  const scrape = telemetry.scraping({
    ...{ ...options, ...sources },
    clientConnections: () => traffic.connectionCount,
    sharesReads: () => reads !== null,
  });
  return new Engine(context, inForce, traffic, reads, scrape);
}

/** Returns the sources of a scrape that depend on the configuration in force. */
function sourcesOf({ store, waitingBodies }: ThreadContext, inForce: InForce, options: EngineOptions) {
  return {
    limiter: { stats: () => inForce.configuration.limiter.stats() },
    counters: () => inForce.configuration.limiter.counterFigures(),
    upstreamConnections: () => inForce.upstreams.connections(),
    upstreamAddresses: () => inForce.upstreams.addresses(),
    tunnels: () => inForce.upstreams.tunnels(),
    waitingBodyBytes: () => waitingBodies.bytes,
    tokens: () => inForce.configuration.files.authenticator.tokens(),
    certificate: () => certificateInUse(inForce.configuration.files),
    store: store && { figures: () => store.figures(), rules: options.sharedRules ?? null },
  };
}

export class Engine {
  readonly telemetry: Telemetry & ThreadScrape;
  readonly threadRecent: ThreadRecent;
  /** For a process that has one thread. */
  readonly recent: RecentThreads;
  readonly inForce: InForce;
  readonly clients: Clients;
  readonly #context: ThreadContext;
  readonly #traffic: TrafficListener;
  readonly #reads: SharedReads | null;
  #checks: CheckListeners | null = null;
  readonly #endReports: () => void;

  /** Use `openEngine`. */
  constructor(
    context: ThreadContext,
    inForce: InForce,
    traffic: TrafficListener,
    reads: SharedReads | null,
    scrape: ThreadScrape,
  ) {
    const { recent, store } = context;
    this.telemetry = { ...context.telemetry, ...scrape };
    this.threadRecent = recent;
    this.recent = {
      memory: recent.history.memory,
      take: () => recent.take(),
    };
    this.#endReports = reportRegularly(recent.history, store);
    this.inForce = inForce;
    this.#context = context;
    this.#traffic = traffic;
    this.#reads = reads;
    this.clients = new Clients(() => this.configuration, context.runtimeRules, context.clock);
  }

  get configuration(): Configuration {
    return this.inForce.configuration;
  }

  /** `isShared`: other threads open the same ports. Rejects with a ListenError, with all listeners closed. */
  async listen({ listen, extAuth }: ListenSettings, { isShared = false } = {}): Promise<Addresses> {
    const checks = await openChecks({ extAuth }, this.inForce.checks, this.#context, this.#reads, isShared);
    const traffic = await this.#traffic.listen({ ...listen, isPortShared: isShared }).catch(async (error) => {
      await checks?.drain(0);
      throw new ListenError("traffic", listen, error);
    });
    this.#checks = checks;
    return { traffic, extAuth: checks?.http ?? null, grpc: checks?.grpc ?? null };
  }

  /** The whole gateway is ready. */
  announceStart(): void {
    this.#context.readiness.current = probeReplies.ready;
    this.#checks?.announceStart();
  }

  /** Where this thread counts, for the main thread. */
  get cells(): ThreadCells {
    return { ...this.telemetry.cells(), outcomes: this.#context.outcomes.ranges };
  }

  /** What this thread hands over to the main thread. */
  async report(): Promise<ThreadReport> {
    return { ...(await this.telemetry.report()), addresses: this.addressStates() };
  }

  /** Of a process that has one thread. */
  get figures(): ThreadFigures {
    return { configured: 1, serving: 1, restarts: 0 };
  }

  /** With several threads, an address is ejected if it is in one of them. */
  addressStates(): readonly AddressState[] {
    return this.inForce.upstreams.addressStates();
  }

  /** The policies in force, with their outcomes so far in all threads. */
  policyStats(): readonly PolicyStats[] {
    return this.configuration.limiter.stats();
  }

  /** Whether the traffic is still served, as far as this thread can tell. */
  isAlive(): boolean {
    return true;
  }

  endTrial(): void {
    this.inForce.endTrial();
  }

  /**
   * `chosen`: as in EngineOptions. Before, `freeSlots` must be called. Rejects with a FilesError. Nothing else may be prepared
   * before `commit` or `drop` is called. The new contents of files are to be put into use after `commit`, in the same turn.
   */
  async prepare(settings: Settings, onTrial: SettingsOnTrial | null = null, chosen?: ChosenSlots): Promise<Prepared> {
    const before = this.configuration;
    const parts = await openFilesAndUpstream(settings, this.#context, before);
    const drop = (): void => closeFilesAndUpstream(parts, before);
    const configured = () => {
      try {
        return configure(parts, this.#context, before, chosen, onTrial);
      } catch (error) {
        drop();
        throw error;
      }
    };
    return {
      commit: () => {
        this.inForce.replace(configured());
        if (onTrial === null) this.inForce.endTrial();
        this.threadRecent.resize(settings.admin.recent);
      },
      drop,
    };
  }

  changeRules(change: RuleChange): void {
    this.#context.runtimeRules.apply(change);
  }

  async forgive(forgiven: readonly ForgivenNotice[], logPosition: number): Promise<readonly (ForgivenName | null)[]> {
    const forgotten = await this.clients.forgive(forgiven);
    this.#context.store?.forgivenUntil(logPosition);
    return forgotten;
  }

  /** Forgets what this thread holds of the names. The main thread forgets the counts in the table. */
  forgiveHeld(forgiven: readonly ForgivenNotice[], logPosition: number): void {
    this.clients.forgiveHeld(forgiven);
    this.#context.store?.forgivenUntil(logPosition);
  }

  /** Makes every response announce that its connection closes. New connections are still accepted. */
  announceEnd(): void {
    this.#context.readiness.current = probeReplies.draining;
    this.#traffic.announceEnd();
    this.#checks?.announceEnd();
  }

  /** Accepts no new connections. Resolves when the requests in progress have ended, or the timeout has expired. */
  async drain(timeoutMs: number): Promise<BrokenOff> {
    this.inForce.upstreams.stopChecking();
    const [requests, calls = 0] = await Promise.all([this.#traffic.drain(timeoutMs), this.#checks?.drain(timeoutMs)]);
    this.inForce.runtime.waiting.abortAll();
    return { requests, calls };
  }

  /** Closes the connections to the upstream and the files. The listeners are closed by `drain`. */
  async close(): Promise<void> {
    this.inForce.close();
    this.#endReports();
    await this.#context.store?.close();
    this.telemetry.close();
  }
}
