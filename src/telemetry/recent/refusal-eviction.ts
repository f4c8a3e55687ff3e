// Chooses which refusal is forgotten when there is no room for another one: the oldest of all, or, if a client has more than a
// tenth of the room, the oldest of that client. So a client that is refused all the time displaces only its own refusals. The
// lists are typed arrays: each slot is in the list of all, and in that of its client.
import { type CounterKey, wordMask } from "../../core/counter-key.ts";
import { hashOfWords, none, SlotIndex } from "./slot-index.ts";

/** A client with more than this part of the room displaces its own refusals. */
const share = 0.1;

export class RefusalEviction {
  /** The newest slot of all; -1 if there is none. */
  newest = none;
  #oldest = none;
  readonly #most: number;
  // Of each slot.
  readonly #older: Int32Array;
  readonly #newer: Int32Array;
  readonly #newerOfClient: Int32Array;
  readonly #clients: Int32Array;
  // Of each client.
  readonly #index: SlotIndex;
  readonly #words: Int32Array;
  readonly #held: Int32Array;
  readonly #oldestOf: Int32Array;
  readonly #newestOf: Int32Array;
  /** Clients that are not in use, which `newestOf` links. */
  #free = 0;
  /** Clients with more than their share: ten at most. */
  readonly #heavy: number[] = [];

  constructor(slots: number) {
    this.#most = Math.max(1, Math.floor(slots * share));
    this.#older = new Int32Array(slots);
    this.#newer = new Int32Array(slots);
    this.#newerOfClient = new Int32Array(slots);
    this.#clients = new Int32Array(slots);
    this.#index = new SlotIndex(slots);
    this.#words = new Int32Array(4 * slots);
    this.#held = new Int32Array(slots);
    this.#oldestOf = new Int32Array(slots);
    this.#newestOf = Int32Array.from({ length: slots }, (_, client) => client + 1);
  }

  get bytes(): number {
    return this.#index.bytes + 4 * this.#older.byteLength + 7 * this.#held.byteLength;
  }

  clientOf(slot: number): number {
    return this.#clients[slot] as number;
  }

  /** Whether the client of a slot is in a network, whose first address the words are. */
  isWithin(slot: number, { a, b, c, d }: Pick<CounterKey, "a" | "b" | "c" | "d">, prefixBits: number): boolean {
    const words = this.#words;
    const i = 4 * (this.#clients[slot] as number);
    return (
      (((words[i + 3] as number) ^ d) & wordMask(prefixBits - 96)) === 0 &&
      (((words[i + 2] as number) ^ c) & wordMask(prefixBits - 64)) === 0 &&
      (((words[i + 1] as number) ^ b) & wordMask(prefixBits - 32)) === 0 &&
      (((words[i] as number) ^ a) & wordMask(prefixBits)) === 0
    );
  }

  /** Returns the next older slot; -1 if there is none. */
  olderThan(slot: number): number {
    return this.#older[slot] as number;
  }

  /** Adds a slot that is in no list. */
  add(slot: number, key: CounterKey): void {
    const hash = hashOfWords(key.a, key.b, key.c, key.d);
    const known = this.#find(hash, key);
    const client = known === none ? this.#enter(hash, key) : known;
    this.#clients[slot] = client;
    this.#newerOfClient[slot] = none;
    const held = (this.#held[client] as number) + 1;
    this.#held[client] = held;
    if (held === 1) this.#oldestOf[client] = slot;
    else this.#newerOfClient[this.#newestOf[client] as number] = slot;
    this.#newestOf[client] = slot;
    if (held === this.#most + 1) this.#heavy.push(client);
    this.#older[slot] = this.newest;
    this.#newer[slot] = none;
    if (this.newest === none) this.#oldest = slot;
    else this.#newer[this.newest] = slot;
    this.newest = slot;
  }

  /** Takes the slot that makes room for another one of the client out of the lists. There must be one. */
  takeOldest(key: CounterKey): number {
    const slot = this.#choose(key);
    const client = this.#clients[slot] as number;
    const held = (this.#held[client] as number) - 1;
    this.#held[client] = held;
    this.#oldestOf[client] = this.#newerOfClient[slot] as number;
    if (held === this.#most) this.#heavy.splice(this.#heavy.indexOf(client), 1);
    if (held === 0) this.#leave(client);
    const older = this.#older[slot] as number;
    const newer = this.#newer[slot] as number;
    if (older === none) this.#oldest = newer;
    else this.#newer[older] = newer;
    if (newer === none) this.newest = older;
    else this.#older[newer] = older;
    return slot;
  }

  /** The oldest of all is the oldest of its client, too. */
  #choose(key: CounterKey): number {
    const own = this.#find(hashOfWords(key.a, key.b, key.c, key.d), key);
    if (own !== none && (this.#held[own] as number) >= this.#most) return this.#oldestOf[own] as number;
    let heaviest = none;
    for (const client of this.#heavy) {
      if (heaviest === none || (this.#held[client] as number) > (this.#held[heaviest] as number)) heaviest = client;
    }
    return heaviest === none ? this.#oldest : (this.#oldestOf[heaviest] as number);
  }

  #find(hash: number, { a, b, c, d }: CounterKey): number {
    const words = this.#words;
    for (let at = this.#index.next(hash); at !== none; at = this.#index.next(hash, at)) {
      const client = this.#index.slotAt(at);
      const i = 4 * client;
      if (words[i] === a && words[i + 1] === b && words[i + 2] === c && words[i + 3] === d) return client;
    }
    return none;
  }

  #enter(hash: number, { a, b, c, d }: CounterKey): number {
    const client = this.#free;
    this.#free = this.#newestOf[client] as number;
    this.#words[4 * client] = a;
    this.#words[4 * client + 1] = b;
    this.#words[4 * client + 2] = c;
    this.#words[4 * client + 3] = d;
    this.#held[client] = 0;
    this.#index.add(hash, client);
    return client;
  }

  #leave(client: number): void {
    this.#index.remove(client);
    this.#newestOf[client] = this.#free;
    this.#free = client;
  }
}
