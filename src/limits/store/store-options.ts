// What a thread gives its store: the connection, the table of the process, and whom it tells what happens.
import type { Clock } from "../../core/clock.ts";
import type { SharedStoreSettings, StateChange, StoreIdentity, StoreLink, Timers } from "../../core/store-link.ts";
import type { CounterTable } from "../table/counter-table.ts";

export interface StoreOptions {
  readonly link: StoreLink;
  readonly settings: SharedStoreSettings;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly table: CounterTable;
  /** Random characters: `gatewayLength` for this start of the process, `threadLength` for this thread. */
  readonly gateway: string;
  readonly thread: string;
  /** 16 bytes that hash keys, if the store has none yet. */
  readonly secret: Uint8Array;
  /** The secret that all gateways use. Called before the store is asked for a counter. */
  onSecret(secret: Uint8Array): void;
  onChange(change: StateChange): void;
  onGone(shard: number): void;
  onIdentity(shard: number, identity: StoreIdentity): void;
  /** A call was answered. */
  onAnswered(seconds: number): void;
  /** A request has waited so long. */
  onWaited(seconds: number): void;
  /**
   * Reads what was forgiven at other gateways, and has this thread forget it. Resolves when that is done, or cannot be done.
   * Without it, gateways do not share that.
   */
  readForgiven?(): Promise<unknown>;
}
