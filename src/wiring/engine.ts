// What carries the traffic in one thread: the parts made from the settings, the traffic listener and the listeners for
// checks. What exists once in a process (admin listener, signals, reloads, the log's output) is not here.
import type { Health } from "../admin/health.ts";
import type { FileChanges } from "../config/files.ts";
import type { Authenticator, ListedTokens } from "../core/authenticator.ts";
import type { ClientAddressRules } from "../core/client-address.ts";
import { ClientBytes } from "../core/client-share.ts";
import type { Clock } from "../core/clock.ts";
import {
  type ConnectionCount,
  LocalConnectionCount,
  LocalPeerConnections,
  type PeerConnections,
} from "../core/connection-count.ts";
import type { Files } from "../core/file-group.ts";
import type { HostPort } from "../core/host-port.ts";
import type { Settings } from "../core/settings.ts";
import { shareOf } from "../core/thread-share.ts";
import type { SharedReads } from "../exchange/shared-reads.ts";
import { TextWrites } from "../exchange/text-writes.ts";
import type { PolicySlot } from "../limits/policies.ts";
import type { Store } from "../limits/store/store.ts";
import type { TrafficListener } from "../listener/traffic-listener.ts";
import type { Logger } from "../telemetry/log.ts";
import type { StoreSightings } from "../telemetry/store-sightings.ts";
import { createTelemetry, type Telemetry } from "../telemetry/telemetry.ts";
import { defaultHttp2LingerMs } from "../transport/transport-options.ts";
import { maxWaitingBodyBytes } from "../upstream/forwarding-options.ts";
import type { NameOptions } from "../upstream/name-lookup.ts";
import { type ConfigurationBase, closeParts, configure, prepareParts } from "./configuration.ts";
import type { ThreadCounters } from "./counters.ts";
import { type ExtAuthListeners, openExtAuth } from "./ext-auth.ts";
import { InForce } from "./in-force.ts";
import { createLimiter } from "./limiter.ts";
import { ListenError } from "./listen-error.ts";
import { createSharedStore, openStore } from "./open-store.ts";
import type { Reloadable } from "./reloader.ts";
import { chooseReads } from "./shared-reads.ts";
import { createTraffic } from "./traffic.ts";

/** What reads the files, and puts their new contents into use all in one turn. */
export interface EngineFiles extends Files {
  take(): FileChanges;
}

export interface EngineOptions {
  readonly counters: ThreadCounters;
  /** The slots of the policies, as the main thread has chosen them. Default: they are chosen here. */
  readonly slots?: readonly PolicySlot[];
  readonly clock: Clock;
  readonly log: Logger;
  /** For warnings about the configuration, and for reloads and errors of files. Default: `log`. */
  readonly notices?: { readonly configuration: Logger; readonly files: Logger };
  /** The number of lines that the log's destination has dropped. */
  readonly droppedLogLines: () => number;
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
  /** False: connections are read as streams. Default: into one buffer that all share, if this Node can. */
  readonly sharedReads?: boolean;
}

export type ListenSettings = Pick<Settings, "listen" | "extAuth">;

/** Where the listeners are. */
export interface Addresses {
  readonly traffic: HostPort;
  /** Null: no checks over HTTP. */
  readonly extAuth: HostPort | null;
  /** Null: no checks over gRPC. */
  readonly grpc: HostPort | null;
}

/** A configuration that can be put into force. Either `commit` or `drop` has to be called. */
export interface Prepared {
  /** Puts it into force in one turn of the event loop, with the new contents of files. */
  commit(): FileChanges;
  drop(): void;
}

/** What carries the traffic: one engine, or several threads that have one each. */
export interface Carrier extends Reloadable {
  readonly telemetry: Pick<Telemetry, "metrics" | "reloaded" | "connectionShed">;
  readonly clientAddress: ClientAddressRules;
  /** The policies in force, and their places in the table of counters. */
  readonly slots: readonly PolicySlot[];
  /** Rejects with a ListenError, with all listeners closed, or closed by `close`. */
  listen(settings: ListenSettings): Promise<Addresses>;
  /** The whole gateway is ready. */
  announceStart(): void;
  health(): Promise<Pick<Health, "upstream" | "store"> & { readonly isServing: boolean }>;
  /** Whether it still responds, as far as this thread can tell. */
  isAlive(): Promise<boolean>;
  /** Makes every response announce that its connection closes. New connections are still accepted. */
  announceEnd(): void;
  /** Accepts no new connections. Resolves when the requests in progress have ended, or the timeout has expired. */
  drain(timeoutMs: number): Promise<BrokenOff>;
  /** Closes everything else. */
  close(): void | Promise<void>;
}

/** What had not ended when the drain's timeout was over. */
export interface BrokenOff {
  readonly requests: number;
  /** Of ingresses. */
  readonly calls: number;
}

export class Engine implements Carrier {
  readonly telemetry: Telemetry;
  readonly inForce: InForce;
  readonly #files: EngineFiles;
  readonly #base: ConfigurationBase;
  readonly #traffic: TrafficListener;
  readonly #store: Store | null;
  readonly #reads: SharedReads | null;
  #checks: ExtAuthListeners | null = null;

  /** Use `openEngine`. */
  constructor(
    base: ConfigurationBase,
    files: EngineFiles,
    inForce: InForce,
    traffic: TrafficListener,
    store: Store | null,
    reads: SharedReads | null,
  ) {
    this.#store = store;
    this.#reads = reads;
    this.#base = base;
    this.#files = files;
    this.inForce = inForce;
    this.telemetry = base.telemetry;
    this.#traffic = traffic;
  }

  /** In force, which a reload changes. */
  get settings(): Settings {
    return this.inForce.configuration.settings;
  }

  get slots(): readonly PolicySlot[] {
    return this.inForce.configuration.limiter.slots;
  }

  get clientAddress(): ClientAddressRules {
    return this.inForce.traffic.current.clientAddress;
  }

  /** `isShared`: other threads open the same ports. Rejects with a ListenError, with all listeners closed. */
  async listen({ listen, extAuth }: ListenSettings, { isShared = false } = {}): Promise<Addresses> {
    const { clock, log, telemetry, textWrites } = this.#base;
    const parts = { clock, log, telemetry, textWrites, reads: this.#reads, isShared };
    const checks = await openExtAuth({ extAuth }, this.inForce.checks, parts);
    const traffic = await this.#traffic.listen({ ...listen, isShared }).catch(async (error) => {
      await checks.drain(0);
      throw new ListenError("traffic", listen, error);
    });
    this.#checks = checks;
    return { traffic, extAuth: checks.http, grpc: checks.grpc };
  }

  listedTokens(): ListedTokens | null {
    return this.inForce.configuration.files.authenticator.tokens()?.list ?? null;
  }

  announceStart(): void {
    this.#checks?.announceStart();
  }

  async health(): ReturnType<Carrier["health"]> {
    return { isServing: true, upstream: this.telemetry.upstreamHealth(), store: this.telemetry.storeHealth() };
  }

  async isAlive(): Promise<boolean> {
    return true;
  }

  /** In one turn of the event loop. */
  async replace(settings: Settings | null): Promise<FileChanges> {
    if (settings === null) return this.#files.take();
    return (await this.prepare(settings)).commit();
  }

  /**
   * `slots`: as in EngineOptions. Rejects with a FilesError. Nothing else may be prepared before `commit` or `drop` is
   * called.
   */
  async prepare(settings: Settings, slots?: readonly PolicySlot[]): Promise<Prepared> {
    const before = this.inForce.configuration;
    const parts = await prepareParts(settings, this.#base, before);
    const drop = (): void => closeParts(parts, before);
    const configured = () => {
      try {
        return configure(parts, this.#base, before, slots);
      } catch (error) {
        drop();
        throw error;
      }
    };
    return {
      commit: () => {
        this.inForce.replace(configured(), this.#base);
        return this.#files.take();
      },
      drop,
    };
  }

  announceEnd(): void {
    this.#traffic.announceEnd();
    this.#checks?.announceEnd();
  }

  async drain(timeoutMs: number): Promise<BrokenOff> {
    this.inForce.upstreams.stopChecking();
    const [requests, calls = 0] = await Promise.all([this.#traffic.drain(timeoutMs), this.#checks?.drain(timeoutMs)]);
    this.inForce.runtime.waiting.abortAll();
    return { requests, calls };
  }

  /** Closes the connections to the upstream and the files. The listeners are closed by `drain`. */
  async close(): Promise<void> {
    this.inForce.close();
    await this.#store?.close();
    this.telemetry.close();
  }
}

/** Opens no listener. Rejects with a FilesError, with everything closed. */
export async function openEngine(settings: Settings, files: EngineFiles, options: EngineOptions): Promise<Engine> {
  const { clock, log, names, authenticator, counters, slots, notices = { configuration: log, files: log } } = options;
  const textWrites = new TextWrites();
  // Beside the rest, because it waits for a connection.
  const opening = options.sharedReads === false ? null : chooseReads(notices.configuration, textWrites);
  const store = await createSharedStore(settings, { clock, counters, telemetry: () => telemetry });
  const limiter = createLimiter(settings, { clock, counters, slots, store }, null);
  let inForce: InForce | null = null;
  const now = (): InForce => {
    if (inForce === null) throw new Error("the first configuration has not been made yet");
    return inForce;
  };
  const waitingBodies = new ClientBytes(shareOf(maxWaitingBodyBytes, settings.workers));
  const telemetry = createTelemetry({
    ...options,
    routes: settings.routes,
    workers: settings.workers,
    limiter: { stats: () => (inForce?.configuration.limiter ?? limiter).stats() },
    counters: () => (inForce?.configuration.limiter ?? limiter).counterFigures(),
    upstreamConnections: () => now().upstreams.connections(),
    store: store && { figures: () => store.figures(), sightings: options.storeSightings },
    waitingBodyBytes: () => waitingBodies.bytes,
    tunnels: () => now().upstreams.tunnels(),
    upstreamAddresses: () => now().upstreams.addresses(),
    clientConnections: () => traffic.connectionCount,
    sharesReads: () => reads !== null,
    tokens: () => now().configuration.files.authenticator.tokens(),
    certificate() {
      const { certificate } = now().configuration.files;
      return certificate && { expiresMs: certificate.value.expiresMs, isCurrent: certificate.isCurrent };
    },
  });
  const isAccessLogged = () => now().configuration.settings.log.access;
  const base: ConfigurationBase = {
    files: { files, log: notices.files, clock, authenticator },
    notices: notices.configuration,
    ticketSecret: options.ticketSecret ?? null,
    ...{ limiter, counters, clock, log, telemetry, waitingBodies, names, isAccessLogged, textWrites },
  };
  const parts = await prepareParts(settings, base, null).catch((error) => {
    telemetry.close();
    throw error;
  });
  if (store !== null) await openStore(store);
  inForce = new InForce(configure(parts, base, null));
  const { runtime, traffic: trafficRef } = inForce;
  const reads = await opening;
  const traffic = await createTraffic({
    reads,
    ...{ proxyProtocol: settings.listen.proxyProtocol, runtime, settings: trafficRef, telemetry, clock, textWrites },
    http2LingerMs: options.http2LingerMs ?? defaultHttp2LingerMs,
    connectionCount: options.connectionCount ?? new LocalConnectionCount(),
    peerConnections: options.peerConnections ?? new LocalPeerConnections(),
  });
  return new Engine(base, files, inForce, traffic, store, reads);
}
