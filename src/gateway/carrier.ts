// What carries the traffic, as the process knows it: one engine, or several threads that have one each.
import type { Health } from "../admin/control-plane.ts";
import type { FileChanges } from "../config/files.ts";
import type { ListedTokens } from "../core/authentication.ts";
import type { ClientAddressRules } from "../core/client-address.ts";
import type { Watched } from "../core/file-group.ts";
import type { HostPort } from "../core/ip-address.ts";
import type { Outcome } from "../core/policy.ts";
import type { RuleChange } from "../core/rules.ts";
import type { Certificate, Settings } from "../core/settings.ts";
import type { AddressState } from "../core/upstream.ts";
import type { ForgivenName } from "../limits/forgive.ts";
import type { PolicySlot } from "../limits/policies.ts";
import type { ForgivenNotice } from "../limits/store/shared-rules.ts";
import type { RecentThreads } from "../telemetry/recent/recent.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Clients } from "./clients.ts";
import type { SettingsOnTrial } from "./reload-trials.ts";

export interface Carrier {
  /** In force. */
  readonly settings: Settings;
  /** In force. Null: there is no list. */
  listedTokens(): ListedTokens | null;
  /**
   * Puts the settings into force (null: those that are), and the new contents of files with them. `onTrial`: null if they are
   * not on trial, which ends one that is on. Rejects with a FilesError or a NotPreparedError: then nothing has changed.
   */
  replace(settings: Settings | null, onTrial?: SettingsOnTrial | null): Promise<FileChanges>;
  /** The settings in force are not on trial any more. */
  endTrial(): Promise<void>;
  /** Resolves when every thread that serves has the change. Changes must come one after the other. */
  changeRules(change: RuleChange): Promise<void>;
  /**
   * Forgets what is counted of some names: in the table, which threads share, once, then what each thread holds. Then all that
   * was forgiven up to a place in the log of gateways is known. Calls must come one after the other. Resolves when every thread
   * has done it, with what was forgotten of each; null for a name that is none.
   */
  forgive(forgiven: readonly ForgivenNotice[], place: number): Promise<readonly (ForgivenName | null)[]>;
  readonly telemetry: Pick<Telemetry, "metrics" | "reloaded" | "trialChanged" | "connectionShed">;
  /** What each thread remembers of the last minutes. */
  readonly recent: RecentThreads;
  readonly clientAddress: ClientAddressRules;
  /** The policies in force, and their places in the table of counters. */
  readonly slots: readonly PolicySlot[];
  /** What is asked about clients, of the thread that owns the table of counters. */
  readonly clients: Clients;
  /** Rejects with a ListenError, with all listeners closed, or closed by `close`. */
  listen(settings: ListenSettings): Promise<Addresses>;
  /** The whole gateway is ready. */
  announceStart(): void;
  health(): Promise<Pick<Health, "upstream" | "store"> & { readonly isServing: boolean }>;
  /** What the admin API shows, of all threads. */
  overview(): Overview;
  /** In force, of the traffic listener. Null: connections are plain. */
  certificate(): Watched<Certificate> | null;
  /** Whether it still responds, as far as this thread can tell. */
  isAlive(): Promise<boolean>;
  /** Makes every response announce that its connection closes. New connections are still accepted. */
  announceEnd(): void;
  /** Accepts no new connections. Resolves when the requests in progress have ended, or the timeout has expired. */
  drain(timeoutMs: number): Promise<BrokenOff>;
  /** Closes everything else. */
  close(): void | Promise<void>;
}

export interface PolicyOutcomes {
  readonly policy: string;
  readonly outcomes: Readonly<Record<Outcome, number>>;
}

/** Summed over threads. An address is ejected if it is in one of them. */
export interface Overview {
  readonly addresses: readonly AddressState[];
  /** What each policy has said so far. */
  readonly policies: readonly PolicyOutcomes[];
  readonly threads: { readonly configured: number; readonly serving: number; readonly restarts: number };
}

/** What had not ended when the drain's timeout was over. */
export interface BrokenOff {
  readonly requests: number;
  /** Of ingresses. */
  readonly calls: number;
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
