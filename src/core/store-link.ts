// A store that several gateways share: what the limiter needs of the connection to it, and what it says about itself.
import type { HostPort } from "./ip-address.ts";

/** A counter's tag decides its place: keys with the same tag are in the same slot of a cluster. */
export interface StoreLink {
  /** Whether the keys of one call must have the same tag. */
  readonly isClustered: boolean;
  /** The numbers of the known shards. No number is used again for another server. Without a cluster there is one. */
  readonly shards: readonly number[];
  /** Returns the shard that has the keys with this tag now; -1 if nobody knows. */
  shardOf(tag: string): number;
  /** Returns a tag whose keys the shard has now; null if it has none. */
  anyTagOf(shard: number): string | null;
  /**
   * Calls the script. `answered` is called once, never within this call: with the script's reply, or with the reason why
   * there is none. A reply may take any time. A call fails as soon as its connection is lost, and is never sent again.
   */
  call(shard: number, keys: readonly string[], args: readonly string[], answered: OnAnswer): void;
  /** Asks the shard's server for its identity. `identified` is called like `answered`. */
  identify(shard: number, identified: (identity: StoreIdentity | null, failure: CallFailure | null) => void): void;
  /** Replaces the connection to a shard, because its server does not answer on it. */
  reconnect(shard: number): void;
  /** Must be set before `open`. */
  events: StoreEvents;
  /** Begins to connect, and never gives up. */
  open(): void;
  /** Resolves when no connection is left. */
  close(): Promise<void>;
}

export type OnAnswer = (reply: unknown, failure: CallFailure | null) => void;

export interface StoreEvents {
  /** A connection to the server of a shard can be used: after the start, a loss, or a promotion. */
  onConnected(shard: number): void;
  onDisconnected(shard: number, failure: CallFailure): void;
  /**
   * An attempt to connect has failed, the first or another one: for the log and the metrics alone. `shard`: null if none is
   * known yet.
   */
  onConnectFailed?(shard: number | null, failure: CallFailure): void;
  /** The shard has left the cluster. */
  onGone(shard: number): void;
}

/** Why the store did not do what it was asked. */
export interface CallFailure {
  readonly kind: CallFailureKind;
  /** One line for the log, without a password or a key of a client. */
  readonly detail: string;
}

/**
 * `unreachable`: no connection, or it was lost. `refused`: wrong password or missing permission. `full`: no memory left.
 * `unready`: a replica, loading, or a slot without a server. `failed`: any other error.
 */
export const callFailureKinds = ["unreachable", "refused", "full", "unready", "failed"] as const;
export type CallFailureKind = (typeof callFailureKinds)[number];

/** What a server says about itself. */
export interface StoreIdentity {
  /** Of this run of the server, and of its data: another one means that writes may be lost. */
  readonly epoch: string;
  /** Since the server's start; keys that were removed because memory was short. */
  readonly evictedKeys: number;
  /** For people: "Redis 7.0.15 at 10.0.0.1:6379". */
  readonly server: string;
  /** What the operator should change, as sentences without a full stop; [] if nothing. */
  readonly warnings: readonly string[];
}

/**
 * `up`: requests ask it. `slow`: a reply is overdue, and no request waits. `away`: only one probe at a time is sent.
 * `returned`: it replies again, and first gets the counts that it lacks.
 */
export const storeStates = ["up", "slow", "away", "returned"] as const;
export type StoreState = (typeof storeStates)[number];

/** From the worst on. A store that has returned answers, but does not have all counts yet. */
const worstFirst: readonly StoreState[] = ["away", "returned", "slow", "up"];

/** Returns 0 for the best state, and more for a worse one. */
export function badnessOf(state: StoreState): number {
  return worstFirst.length - 1 - worstFirst.indexOf(state);
}

/** Returns the state of the shard that is worst off; `away` if no shard is known. */
export function worstState(shards: Readonly<Record<StoreState, number>>): StoreState {
  return worstFirst.find((state) => shards[state] > 0) ?? "away";
}

/** Why the state has changed. `forgot`: the store may have lost what it had acknowledged. */
export type StateCause = "answered" | "overdue" | "forgot" | "told" | CallFailureKind;

export interface StateChange {
  readonly shard: number;
  readonly from: StoreState;
  readonly to: StoreState;
  readonly cause: StateCause;
  /** For the log; "" if there is nothing to add. */
  readonly detail: string;
  /** How long the state before has lasted. */
  readonly lastedMs: number;
}

/** What is known of the store. */
export interface StoreHealth {
  /** `worstState(shards)`. */
  readonly state: StoreState;
  /** Shards by state. */
  readonly shards: Readonly<Record<StoreState, number>>;
  /** Gateways that share the store, as counted or configured. */
  readonly replicas: number;
  /** Since when it is in this state, by the wall clock, for people. Null: no shard is known yet. */
  readonly sinceMs: number | null;
}

export const callResults = ["answered", "late", ...callFailureKinds] as const;
export type CallResult = (typeof callResults)[number];

/** What happens to requests while the store is not there. */
export const onFailureModes = ["local", "open", "closed"] as const;
export type OnFailure = (typeof onFailureModes)[number];

/** What one thread has done with the store. Counts only grow. */
export class StoreCounts {
  /** Calls of the script by result. `late`: answered, when nobody waited any more. */
  readonly calls = Object.fromEntries(callResults.map((result) => [result, 0])) as Record<CallResult, number>;
  /** Counters that the calls were about. */
  items = 0;
  /** Units that the store has granted; that were spent; that were given back or ran out. */
  readonly units = { granted: 0, spent: 0, returned: 0 };
  /** Requests that waited for an answer of the store, by what came of it. */
  readonly waited = { answered: 0, overdue: 0 };
  /** Requests that were decided without the store, because it was not there. */
  readonly alone: Record<OnFailure, number> = { local: 0, open: 0, closed: 0 };
  /** Requests among those of `alone` that were decided so because an answer was late: the store was `up` or `slow`. */
  late = 0;
  /** Requests that were refused without asking, because the store had refused shortly before. */
  refusedFromMemory = 0;
  /** How often a store was found to have forgotten, and its clock to have stepped. */
  forgot = 0;
  clockSteps = 0;
  /** Clients that are counted with their network, because too many new keys were made. */
  coarse = 0;
}

/** What one thread knows of the store, and has done with it. */
export interface SharedStoreFigures extends StoreHealth, Readonly<StoreCounts> {
  /** Units that were granted and neither spent nor returned: in a lease, or in use by a request that may return them. */
  readonly heldUnits: number;
  /** Leases that requests may spend from. */
  readonly heldLeases: number;
}

/** Of the shared rules. `unread`: not since the start. `away`: they were read, and cannot be read now. */
export const sharedRulesStates = ["read", "unread", "away"] as const;

export type SharedRulesState = (typeof sharedRulesStates)[number];

/** What gateways share of rules and forgiveness, as the process sees it. */
export interface SharedRulesFigures {
  readonly state: SharedRulesState;
  /** For how long. */
  readonly forMs: number;
  readonly rules: number;
  /** Rules, removals and forgivenesses that hold here alone, until the store can be told. */
  readonly untold: number;
  /** The version of the rules that was read last, or 0. */
  readonly place: number;
}

/** From this limit on, units are leased before a request needs them. Below, too many would lie idle elsewhere. */
export const leasedAheadFrom = 1000;

/** How the limiter uses the store. */
export interface SharedStoreSettings {
  /** Of all keys; ends with ":" by default. */
  readonly prefix: string;
  /** No request waits longer for an answer. */
  readonly waitMs: number;
  readonly lease: {
    /** The longest time for which units are leased ahead. */
    readonly durationMs: number;
    /** The most units of a lease. */
    readonly most: number;
  };
  readonly onFailure: OnFailure;
  /** How many gateways share the store; "auto": those that are seen. */
  readonly replicas: number | "auto";
  /** New keys of each policy that this thread makes within a window at most. Beyond, clients are counted with their network. */
  readonly maxKeys: number;
}

export interface StoreUser {
  /** Null: the default user. */
  readonly username: string | null;
  /** An absolute path; read again at each connection. Null: no password. */
  readonly passwordFile: string | null;
}

/** Where the store is. */
export interface StoreConnectionSettings extends StoreUser {
  readonly servers:
    | { readonly kind: "one"; readonly address: HostPort }
    /** `name`: of the primary, as the sentinels know it. `user`: the gateway's, at the sentinels. */
    | {
        readonly kind: "sentinels";
        readonly name: string;
        readonly addresses: readonly HostPort[];
        readonly user: StoreUser;
      }
    | { readonly kind: "cluster"; readonly addresses: readonly HostPort[] };
  /** 0 in a cluster. */
  readonly database: number;
  /** Null: plain. The paths are absolute. */
  readonly tls: {
    /** Null: the authorities of Node's own list. */
    readonly caFile: string | null;
    /** Both or none: what the gateway shows of itself. */
    readonly certFile: string | null;
    readonly keyFile: string | null;
    /** Null: the host of the address. */
    readonly serverName: string | null;
  } | null;
}

/** The timers that the shared limiter uses, so that a simulation can have its own. */
export interface Timers {
  /** `run` is called once, unless it is cancelled. Does not keep the process alive. */
  after(ms: number, run: () => void): { cancel(): void };
  /** `run` is called when the requests that have arrived in this turn of the event loop have been read. */
  endOfTurn(run: () => void): void;
}
