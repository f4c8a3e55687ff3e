// All shards of the store that are known, by number.
import { type StoreLink, type StoreState, storeStates } from "../../core/shared-store.ts";
import { Shard, type ShardParts } from "./shard.ts";

export interface ShardMapParts extends Omit<ShardParts, "onIdentity"> {
  onIdentity(shard: number, ...identity: Parameters<ShardParts["onIdentity"]>): void;
  /** The shard exists no more. */
  onGone(shard: number): void;
}

export class ShardMap {
  readonly #link: StoreLink;
  readonly #parts: ShardMapParts;
  readonly #shards = new Map<number, Shard>();
  #onUp: (() => void) | null = null;

  constructor(parts: ShardMapParts) {
    this.#parts = parts;
    this.#link = parts.link;
    parts.link.events = {
      onConnected: (number) => this.#at(number).connected(),
      onDisconnected: (number, failure) => this.#at(number).disconnected(failure),
      onGone: (number) => {
        this.#shards.get(number)?.close();
        this.#shards.delete(number);
        parts.onGone(number);
      },
    };
  }

  /** Returns the shard of a tag; undefined if it is not known. */
  of(tag: string): Shard | undefined {
    return this.#shards.get(this.#link.shardOf(tag));
  }

  /** What the clock of the middle shard shows, as far as this thread knows; null before the first answer. */
  wallMs(nowMs: number): number | null {
    const known = [...this.#shards.values()].flatMap(({ watch }) => watch.wallMs(nowMs) ?? []);
    return known.sort((a, b) => a - b)[Math.floor(known.length / 2)] ?? null;
  }

  /** Resolves once every shard that is known can be asked. */
  reached(): Promise<void> {
    return new Promise((resolve) => {
      this.#onUp = () => {
        if ([...this.#shards.values()].every(({ state }) => state.state === "up")) resolve();
      };
    });
  }

  states(): Readonly<Record<StoreState, number>> {
    const shards = Object.fromEntries(storeStates.map((each) => [each, 0])) as Record<StoreState, number>;
    for (const { state } of this.#shards.values()) shards[state.state] += 1;
    return shards;
  }

  /** Tells all shards that this thread ends. */
  leave(): void {
    for (const shard of this.#shards.values()) shard.leave();
  }

  close(): void {
    for (const shard of this.#shards.values()) shard.close();
  }

  #at(number: number): Shard {
    const known = this.#shards.get(number);
    if (known !== undefined) return known;
    const { onIdentity, onChange } = this.#parts;
    const shard = new Shard(number, {
      ...this.#parts,
      onIdentity: (identity) => onIdentity(number, identity),
      onChange: (change) => {
        onChange(change);
        if (change.to === "up") this.#onUp?.();
      },
    });
    this.#shards.set(number, shard);
    return shard;
  }
}
