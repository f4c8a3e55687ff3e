// Resets a key's counter, and the coarser counter of its client or network. A later refund must not reach the new counter: each
// charge stores two generation sums, and its refund is dropped if both changed. Other keys may have the same generations by
// chance. Units whose refund is dropped count too long, so nobody exceeds a limit.
import type { CounterKey } from "../../core/counter-key.ts";
import { Cursor, entryOfLine, findKey } from "./directory.ts";
import { coarseLockAt, type Eviction, networkKey, type TableMemory } from "./eviction.ts";
import { countUnits, type Span } from "./key-log.ts";
import {
  coarseNameOf,
  figureAt,
  figures,
  forgivenessMarks,
  header,
  heldSlotOf,
  kinds,
  policySlotOf,
} from "./layout.ts";

export interface Forgiven {
  /** That counted and are forgotten. */
  readonly units: number;
  /** Those that had such units: its own, and the ones that were counted in its place. */
  readonly keys: number;
  /** What was counted as one with others, all of which are forgiven: its client, its client's network. */
  readonly coarse: "client" | "network" | null;
}

export class Forgiveness {
  readonly #memory: TableMemory;
  readonly #eviction: Eviction;
  readonly #own = new Cursor();
  readonly #held = new Cursor();

  constructor(memory: TableMemory, eviction: Eviction) {
    this.#memory = memory;
    this.#eviction = eviction;
  }

  /**
   * Forgets the units of a key, kept and held. `client`: null if it is not known, then neither it nor its network is looked
   * for. Takes and frees the locks.
   */
  forgive(slot: number, key: CounterKey, client: CounterKey | null, span: Span): Forgiven {
    const { locks, geometry } = this.#memory;
    locks.want(this.#find(this.#own, slot, kinds.own, key).shard);
    locks.want(this.#find(this.#held, heldSlotOf(slot), kinds.own, key).shard);
    if (client !== null) locks.want(coarseLockAt(geometry));
    return locks.within(() => {
      const coarse = client === null ? [] : this.#coarse(slot, key, client);
      const forgiven: KeyPlace[] = [{ kind: kinds.own, key }, ...coarse];
      // First, because a thread that ends in between must leave units that nobody takes away.
      for (const place of forgiven) this.#mark(slot, place);
      // What is held must never be more than all.
      for (const place of forgiven) this.#forget(this.#held, heldSlotOf(slot), place, span);
      const units = forgiven.map((place) => this.#forget(this.#own, slot, place, span));
      const keys = units.filter((each) => each > 0).length;
      if (keys > 0) this.#memory.addTo(figureAt(slot, figures.forgiven), keys);
      return {
        units: units.reduce((sum, each) => sum + each, 0),
        keys,
        coarse: coarseNameOf(coarse.at(-1)?.kind ?? kinds.own),
      };
    });
  }

  /** Changes when the key is forgiven, or what is counted in its place. The key's lock must be held. */
  marksOf({ slot, key, client }: Cursor): number {
    const policySlot = policySlotOf(slot);
    const own = markHash(policySlot, kinds.own, key.a, key.b, key.c, key.d);
    const ofClient = markHash(policySlot, kinds.client, client.a, client.b, client.c, client.d);
    const isIpv4 = client.a === 0 && client.b === 0 && client.c === 0xffff;
    const ofNetwork = isIpv4
      ? markHash(policySlot, kinds.network, 0, 0, 0xffff, client.d & ~0xff)
      : markHash(policySlot, kinds.network, client.a, client.b & ~0xffff, 0, 0);
    const first = this.#at(own >>> 16) + this.#at(ofClient >>> 16) + this.#at(ofNetwork >>> 16);
    const second = this.#at(own & 0xffff) + this.#at(ofClient & 0xffff) + this.#at(ofNetwork & 0xffff);
    return (first % sums) * sums + (second % sums);
  }

  /** Returns where the client and the network of a key are counted in its place. */
  #coarse(slot: number, key: CounterKey, client: CounterKey): KeyPlace[] {
    if (this.#memory.w[header.coarseKeys] === 0) return [];
    const places: KeyPlace[] = [{ kind: kinds.network, key: networkKey(client) }];
    if (key !== client) places.unshift({ kind: kinds.client, key: client });
    const { w } = this.#memory;
    return places.filter((place) =>
      [slot, heldSlotOf(slot)].some((each) => findKey(w, this.#find(this.#own, each, place.kind, place.key)) !== 0),
    );
  }

  /** Returns the units that counted. */
  #forget(cursor: Cursor, slot: number, { kind, key }: KeyPlace, span: Span): number {
    const { w } = this.#memory;
    this.#find(cursor, slot, kind, key);
    cursor.line = findKey(w, cursor);
    if (cursor.line === 0) return 0;
    const units = countUnits(w, cursor.shard, cursor.line, span);
    this.#eviction.forget(cursor.shard, entryOfLine(w, cursor));
    return units;
  }

  #find(cursor: Cursor, slot: number, kind: number, key: CounterKey): Cursor {
    cursor.slot = slot;
    this.#memory.places.point(cursor, kind, key);
    return cursor;
  }

  #mark(slot: number, { kind, key: { a, b, c, d } }: KeyPlace): void {
    const hash = markHash(slot, kind, a, b, c, d);
    this.#memory.addTo(markAt(hash >>> 16), 1);
    this.#memory.addTo(markAt(hash & 0xffff), 1);
  }

  #at(bits: number): number {
    return (this.#memory.w[markAt(bits)] as number) >>> 0;
  }
}

interface KeyPlace {
  readonly kind: number;
  readonly key: CounterKey;
}

/** Two sums below this one make one number without a fraction. */
const sums = 2 ** 26;

/** Returns whether the key of these marks was forgiven between two readings of them. */
export function isForgivenSince(before: number, now: number): boolean {
  return before % sums !== now % sums && Math.floor(before / sums) !== Math.floor(now / sums);
}

function markAt(bits: number): number {
  return header.forgivenessMarks + ((bits * forgivenessMarks) >>> 16);
}

/** Nobody gains by finding two keys with one hash, so it has no secret. */
function markHash(slot: number, kind: number, a: number, b: number, c: number, d: number): number {
  let hash = mixed((slot << 2) | kind, a);
  hash = mixed(hash, b);
  hash = mixed(hash, c);
  return mixed(hash, d);
}

function mixed(hash: number, word: number): number {
  const product = Math.imul(hash ^ word, 0x9e3779b1);
  return product ^ (product >>> 15);
}
