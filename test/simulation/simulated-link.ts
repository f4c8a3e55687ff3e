// The connection of one thread of a gateway to the store, as `StoreLink` promises it.
import type { CallFailure, OnAnswer, StoreEvents, StoreIdentity, StoreLink } from "../../src/core/store-link.ts";
import type { Connection, Network } from "./network.ts";
import type { SimulatedShard } from "./simulated-store.ts";

/** The process that the link is in. */
export interface Process {
  readonly gateway: number;
  /** Runs something in this process when it is able to; never after its end. */
  enter(run: () => void): void;
}

type Finish<T> = (value: T | null, failure: CallFailure | null) => void;

export class SimulatedLink implements StoreLink {
  readonly isClustered: boolean;
  readonly shards: readonly number[];
  events: StoreEvents = { onConnected: () => {}, onDisconnected: () => {}, onGone: () => {} };
  readonly #script: "counters" | "rules";
  readonly #process: Process;
  readonly #network: Network;
  readonly #connections = new Map<number, Connection>();
  readonly #pending = new Map<Connection, Set<(failure: CallFailure) => void>>();
  #isClosed = false;

  /** `script`: which one it calls. */
  constructor(network: Network, process: Process, script: "counters" | "rules" = "counters") {
    this.#script = script;
    this.#network = network;
    this.#process = process;
    this.shards = network.shards.map(({ number }) => number);
    this.isClustered = this.shards.length > 1;
  }

  shardOf(tag: string): number {
    let hash = 0;
    for (let i = 0; i < tag.length; i += 1) hash = (Math.imul(hash, 31) + tag.charCodeAt(i)) >>> 0;
    return this.shards[hash % this.shards.length] ?? -1;
  }

  anyTagOf(shard: number): string | null {
    for (let i = 0; ; i += 1) if (this.shardOf(`shard ${i}`) === shard) return `shard ${i}`;
  }

  call(shard: number, keys: readonly string[], args: readonly string[], answered: OnAnswer): void {
    const ofRules = this.#script === "rules";
    this.#ask(shard, (server) => (ofRules ? server.callRules(args) : server.call(keys, args)), answered);
  }

  identify(shard: number, identified: (identity: StoreIdentity | null, failure: CallFailure | null) => void): void {
    const identity = ({ epoch, evictedKeys }: SimulatedShard): StoreIdentity => {
      return { epoch, evictedKeys, server: "simulated", warnings: [] };
    };
    this.#ask(shard, identity, identified);
  }

  reconnect(shard: number): void {
    const connection = this.#connections.get(shard);
    if (connection !== undefined) this.#lose(connection, "dropped");
  }

  open(): void {
    for (const shard of this.#network.shards) this.#connect(shard);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const connection of [...this.#connections.values()]) this.#lose(connection, "closed");
  }

  /** The process has ended without a word. */
  abandon(): void {
    this.#isClosed = true;
    for (const connection of this.#connections.values()) {
      connection.isOpen = false;
      connection.onLost = null;
      this.#network.connections.delete(connection);
    }
  }

  #ask<T>(number: number, serve: (server: SimulatedShard) => T, finish: Finish<T>): void {
    const connection = this.#connections.get(number);
    const later = (run: () => void): void => this.#process.enter(run);
    if (connection === undefined) {
      this.#network.time.after(0, () => later(() => finish(null, unreachable("no connection"))));
      return;
    }
    const pending = this.#pending.get(connection) ?? new Set();
    const fail = (failure: CallFailure): void => finish(null, failure);
    pending.add(fail);
    const network = this.#network;
    network.toStore(connection, () => {
      const { shard } = connection;
      const { failing } = shard;
      const value = failing === null ? serve(shard) : null;
      const failure = failing === null ? null : { kind: failing, detail: "as planned" };
      if (!connection.isOpen) return;
      network.toGateway(connection, () => {
        later(() => {
          if (pending.delete(fail)) finish(value, failure);
        });
      });
    });
  }

  /** Tries until it succeeds. */
  #connect(shard: SimulatedShard): void {
    const network = this.#network;
    const { gateway } = this.#process;
    const isParted = (): boolean => network.partedUntilMs(gateway, shard.number) > network.time.nowMs;
    network.time.after(2 * network.delayMs(), () => {
      if (this.#isClosed) return;
      if (shard.isDown || isParted()) {
        network.time.after(network.chance.between(20, 200), () => this.#connect(shard));
        return;
      }
      const nowMs = network.time.nowMs;
      const connection: Connection = {
        gateway,
        shard,
        epoch: shard.epoch,
        isOpen: true,
        toStoreMs: nowMs,
        toGatewayMs: nowMs,
        onLost: (detail) => this.#process.enter(() => this.#lose(connection, detail)),
      };
      network.connections.add(connection);
      this.#process.enter(() => {
        if (this.#isClosed) return;
        this.#connections.set(shard.number, connection);
        this.#pending.set(connection, new Set());
        this.events.onConnected(shard.number);
      });
    });
  }

  /** In this process: the calls that have no answer fail at once, and another connection is made. */
  #lose(connection: Connection, detail: string): void {
    const { shard } = connection;
    connection.isOpen = false;
    connection.onLost = null;
    this.#network.connections.delete(connection);
    if (this.#connections.get(shard.number) !== connection) return;
    this.#connections.delete(shard.number);
    const unanswered = this.#pending.get(connection);
    const pending = [...(unanswered ?? [])];
    // An answer that is on its way comes too late.
    unanswered?.clear();
    this.#pending.delete(connection);
    // Never within the call that asked to drop it.
    this.#network.time.after(0, () => {
      this.#process.enter(() => {
        const failure = unreachable(detail);
        for (const fail of pending) fail(failure);
        this.events.onDisconnected(shard.number, failure);
      });
    });
    if (!this.#isClosed) this.#connect(shard);
  }
}

function unreachable(detail: string): CallFailure {
  return { kind: "unreachable", detail };
}
