// Counts the refusals of each key in memory that does not grow: the Space-Saving summary (Metwally, Agrawal, El Abbadi: 2005).
// The count of a key is never too low, and says by how much it may be too high. A key with more than its share of all
// refusals (all divided by the entries) is always there. A refusal takes constant time, whatever was refused before: keys
// with one count are in one bucket, and buckets are in the order of their counts. A sketch by hashed rows (Count-Min) would
// need a heap beside it to name its keys, and could only say how wrong a count probably is.
import type { CounterKey } from "../../core/counter-key.ts";
import { isContinued, type Policy } from "../../core/policy.ts";
import { hashOfWords, none, SlotIndex } from "./slot-index.ts";

/** All threads begin a generation at the same instants, because their clocks agree. */
export const generationMs = 15 * 60_000;

/** At most so many policies: those of a configuration, and of one that a reload has replaced. */
const maxPolicies = 64;

/** At most so many keys are told at once. */
const maxToldKeys = 1_000;

/** The refused keys of one policy in one thread, those with the most refusals first. */
export interface KeySummary {
  readonly keys: readonly RefusedKey[];
  /** The most refusals of a key that is not among them. */
  readonly floor: number;
}

interface Generations {
  policy: Policy;
  current: Sketch;
  previous: Sketch;
}

/**
 * The keys that each policy refused most in one thread, and the sum over several threads. Counts cover the current
 * quarter of an hour and the one before it, so that a key that is no longer refused is forgotten.
 */
export class RefusedKeys {
  readonly capacity: number;
  /** By name. */
  readonly #policies = new Map<string, Generations>();
  #last: Generations | null = null;
  #generation = Number.NaN;

  /** `capacity`: keys for each policy. */
  constructor(capacity: number) {
    this.capacity = capacity;
  }

  get bytes(): number {
    let bytes = 0;
    for (const { current, previous } of this.#policies.values()) bytes += current.bytes + previous.bytes;
    return bytes;
  }

  /** `atMs`: of the monotonic clock. The others are as in `Sketch.add`. */
  add(
    policy: Policy,
    key: CounterKey,
    client: CounterKey,
    subject: string | null,
    route: string | null,
    atMs: number,
  ): void {
    this.#turn(atMs);
    const generations = this.#last?.policy === policy ? this.#last : this.#of(policy);
    this.#last = generations;
    generations.current.add(key, client, subject, route);
  }

  /** Returns at most `maxToldKeys` keys. `nowMs`: of the monotonic clock. */
  summary(policy: string, nowMs: number): KeySummary {
    this.#turn(nowMs);
    const generations = this.#policies.get(policy);
    return generations === undefined ? { keys: [], floor: 0 } : addedUp(generations, maxToldKeys);
  }

  #of(policy: Policy): Generations {
    const known = this.#policies.get(policy.name);
    if (known !== undefined && isContinued(policy, known.policy)) {
      known.policy = policy;
      return known;
    }
    // The keys of a policy that is no longer continued are other keys.
    this.#policies.delete(policy.name);
    const [oldest] = this.#policies.keys();
    if (this.#policies.size >= maxPolicies && oldest !== undefined) this.#policies.delete(oldest);
    const made = { policy, current: new Sketch(this.capacity), previous: new Sketch(this.capacity) };
    this.#policies.set(policy.name, made);
    return made;
  }

  #turn(nowMs: number): void {
    const generation = Math.floor(nowMs / generationMs);
    if (generation === this.#generation) return;
    const isNext = generation === this.#generation + 1;
    // An exchange may have ended shortly before the one that was seen first in this generation.
    if (generation < this.#generation) return;
    this.#generation = generation;
    for (const [name, generations] of this.#policies) {
      const { current, previous } = generations;
      previous.clear();
      generations.current = previous;
      generations.previous = current;
      if (!isNext) current.clear();
      if (current.size === 0) this.#policies.delete(name);
    }
    this.#last = null;
  }
}

/** Adds up both generations of a policy, without a text for each key. */
function addedUp({ current, previous }: Generations, limit: number): KeySummary {
  const counts = new Float64Array(current.size + previous.size);
  const other = new Int32Array(current.size);
  const isInBoth = new Uint8Array(previous.size);
  for (let slot = 0; slot < current.size; slot += 1) {
    const found = previous.find(current.keyOf(slot));
    other[slot] = found;
    if (found !== none) isInBoth[found] = 1;
    counts[slot] = current.countOf(slot) + (found === none ? previous.floor : previous.countOf(found));
  }
  for (let slot = 0; slot < previous.size; slot += 1) {
    counts[current.size + slot] = isInBoth[slot] === 1 ? 0 : previous.countOf(slot) + current.floor;
  }
  const order = Array.from(counts.keys())
    .filter((at) => counts[at] !== 0)
    .sort((x, y) => (counts[y] as number) - (counts[x] as number));
  const keys = order.slice(0, limit).map((at): RefusedKey => {
    const count = counts[at] as number;
    if (at >= current.size) {
      const slot = at - current.size;
      const error = previous.errorOf(slot) + current.floor;
      return { key: previous.keyOf(slot), count, error, seen: previous.seenOf(slot) };
    }
    const found = other[at] as number;
    const error = current.errorOf(at) + (found === none ? previous.floor : previous.errorOf(found));
    return { key: current.keyOf(at), count, error, seen: current.seenOf(at) };
  });
  const firstLeftOut = order.length > limit ? (counts[order[limit] as number] as number) : 0;
  return { keys, floor: Math.max(firstLeftOut, current.floor + previous.floor) };
}

/**
 * Adds up the summaries of several threads. A key that one of them lacks may have had as many refusals there as `floor`
 * says: they are added to its count and to its possible error.
 */
export function merged(summaries: readonly KeySummary[]): KeySummary {
  const floor = summaries.reduce((sum, each) => sum + each.floor, 0);
  const sums = new Map<string, RefusedKey>();
  for (const summary of summaries) {
    for (const { key, count, error, seen } of summary.keys) {
      const name = nameOf(key);
      const sum = sums.get(name) ?? { key, count: floor, error: floor, seen };
      sums.set(name, { ...sum, count: sum.count + count - summary.floor, error: sum.error + error - summary.floor });
    }
  }
  return { keys: [...sums.values()].sort((x, y) => y.count - x.count), floor };
}

function nameOf({ a, b, c, d, isAddress }: KeyWords): string {
  return `${a},${b},${c},${d},${isAddress}`;
}

/** The four words of a CounterKey, as they can be posted. */
export type KeyWords = Pick<CounterKey, "a" | "b" | "c" | "d" | "isAddress">;

/** Whose refusal added a key that is a hash to the sketch. */
interface SeenWith {
  readonly client: KeyWords;
  /** The name of the token or the subject, as it may be logged, of at most 64 bytes; null without one. */
  readonly subject: string | null;
  readonly route: string | null;
}

/** A key with its refusals: at most `count`, and at least `count - error`. */
export interface RefusedKey {
  readonly key: KeyWords;
  readonly count: number;
  readonly error: number;
  /** Null for an address. */
  readonly seen: SeenWith | null;
}

const wordsOfKey = 4;
const subjectBytes = 64;

export class Sketch {
  readonly capacity: number;
  size = 0;
  readonly #index: SlotIndex;
  readonly #words: Int32Array;
  readonly #isAddress: Uint8Array;
  readonly #errors: Uint32Array;
  // Each entry is in the list of a bucket, and has the bucket's count.
  readonly #bucketOf: Int32Array;
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  readonly #counts: Uint32Array;
  readonly #first: Int32Array;
  readonly #above: Int32Array;
  readonly #below: Int32Array;
  #lowest = none;
  /** Of the list of buckets that are not in use, which `above` links. */
  #free = 0;
  #seen: SeenColumns | null = null;

  /** `capacity`: entries, from 1. */
  constructor(capacity: number) {
    this.capacity = capacity;
    this.#index = new SlotIndex(capacity);
    this.#words = new Int32Array(wordsOfKey * capacity);
    this.#isAddress = new Uint8Array(capacity);
    this.#errors = new Uint32Array(capacity);
    this.#bucketOf = new Int32Array(capacity);
    this.#next = new Int32Array(capacity);
    this.#previous = new Int32Array(capacity);
    // A key is in its new bucket before its old one is given up.
    const buckets = capacity + 1;
    this.#counts = new Uint32Array(buckets);
    this.#first = new Int32Array(buckets);
    this.#above = new Int32Array(buckets);
    this.#below = new Int32Array(buckets);
    this.clear();
  }

  get bytes(): number {
    const perEntry = this.#words.byteLength + this.#isAddress.byteLength + 4 * this.#errors.byteLength;
    return this.#index.bytes + perEntry + 4 * this.#counts.byteLength + (this.#seen?.bytes ?? 0);
  }

  /** The most refusals that a key outside the sketch may have. */
  get floor(): number {
    return this.size < this.capacity ? 0 : (this.#counts[this.#lowest] as number);
  }

  clear(): void {
    this.size = 0;
    this.#index.clear();
    this.#lowest = none;
    this.#free = 0;
    const last = this.#above.length - 1;
    for (let bucket = 0; bucket <= last; bucket += 1) this.#above[bucket] = bucket === last ? none : bucket + 1;
  }

  /** Counts a refusal. `client`, `subject` and `route` are kept for a key that is a hash and was not in the sketch. */
  add(key: CounterKey, client: CounterKey, subject: string | null, route: string | null): void {
    const hash = hashOfWords(key.a, key.b, key.c, key.d);
    let slot = this.#find(hash, key);
    if (slot === none) {
      slot = this.size < this.capacity ? this.#take() : this.#replaceLeast();
      this.#index.add(hash, slot);
      this.#words[wordsOfKey * slot] = key.a;
      this.#words[wordsOfKey * slot + 1] = key.b;
      this.#words[wordsOfKey * slot + 2] = key.c;
      this.#words[wordsOfKey * slot + 3] = key.d;
      this.#isAddress[slot] = Number(key.isAddress);
      if (!key.isAddress) {
        this.#seen ??= new SeenColumns(this.capacity);
        this.#seen.set(slot, client, subject, route);
      }
    }
    this.#raise(slot);
  }

  /** Returns the slot of the key; -1 if it is not there. */
  find(key: KeyWords): number {
    return this.#find(hashOfWords(key.a, key.b, key.c, key.d), key);
  }

  /** Slots in use are those below `size`. */
  countOf(slot: number): number {
    return this.#counts[this.#bucketOf[slot] as number] as number;
  }

  errorOf(slot: number): number {
    return this.#errors[slot] as number;
  }

  keyOf(slot: number): KeyWords {
    const [a = 0, b = 0, c = 0, d = 0] = this.#words.subarray(wordsOfKey * slot, wordsOfKey * (slot + 1));
    return { a, b, c, d, isAddress: this.#isAddress[slot] === 1 };
  }

  seenOf(slot: number): SeenWith | null {
    return this.#isAddress[slot] === 1 ? null : (this.#seen?.at(slot) ?? null);
  }

  #find(hash: number, key: KeyWords): number {
    const words = this.#words;
    for (let at = this.#index.next(hash); at !== none; at = this.#index.next(hash, at)) {
      const slot = this.#index.slotAt(at);
      const start = wordsOfKey * slot;
      const isSame =
        words[start] === key.a &&
        words[start + 1] === key.b &&
        words[start + 2] === key.c &&
        words[start + 3] === key.d &&
        this.#isAddress[slot] === Number(key.isAddress);
      if (isSame) return slot;
    }
    return none;
  }

  /** Returns a slot that has not been used, below all buckets. */
  #take(): number {
    const slot = this.size;
    this.size += 1;
    this.#errors[slot] = 0;
    this.#bucketOf[slot] = none;
    return slot;
  }

  /** Returns the slot of a key with the fewest refusals, which is forgotten: the new key may have had as many. */
  #replaceLeast(): number {
    const slot = this.#first[this.#lowest] as number;
    this.#errors[slot] = this.#counts[this.#lowest] as number;
    this.#index.remove(slot);
    return slot;
  }

  /** Moves the entry to the bucket with one more. */
  #raise(slot: number): void {
    const bucket = this.#bucketOf[slot] as number;
    const count = bucket === none ? 1 : (this.#counts[bucket] as number) + 1;
    const above = bucket === none ? this.#lowest : (this.#above[bucket] as number);
    const hasCount = above !== none && this.#counts[above] === count;
    // It is alone in its bucket, and no other bucket has the new count.
    if (!hasCount && bucket !== none && this.#first[bucket] === slot && this.#next[slot] === none) {
      this.#counts[bucket] = count;
      return;
    }
    const into = hasCount ? above : this.#insert(count, bucket, above);
    if (bucket !== none) this.#leave(slot, bucket);
    this.#enter(slot, into);
  }

  /** Returns a new bucket between two others. */
  #insert(count: number, below: number, above: number): number {
    const bucket = this.#free;
    this.#free = this.#above[bucket] as number;
    this.#counts[bucket] = count;
    this.#first[bucket] = none;
    this.#below[bucket] = below;
    this.#above[bucket] = above;
    if (below === none) this.#lowest = bucket;
    else this.#above[below] = bucket;
    if (above !== none) this.#below[above] = bucket;
    return bucket;
  }

  #enter(slot: number, bucket: number): void {
    const first = this.#first[bucket] as number;
    this.#bucketOf[slot] = bucket;
    this.#previous[slot] = none;
    this.#next[slot] = first;
    this.#first[bucket] = slot;
    if (first !== none) this.#previous[first] = slot;
  }

  #leave(slot: number, bucket: number): void {
    const next = this.#next[slot] as number;
    const previous = this.#previous[slot] as number;
    if (next !== none) this.#previous[next] = previous;
    if (previous !== none) this.#next[previous] = next;
    else this.#first[bucket] = next;
    if (this.#first[bucket] === none) this.#remove(bucket);
  }

  #remove(bucket: number): void {
    const below = this.#below[bucket] as number;
    const above = this.#above[bucket] as number;
    if (below === none) this.#lowest = above;
    else this.#above[below] = above;
    if (above !== none) this.#below[above] = below;
    this.#above[bucket] = this.#free;
    this.#free = bucket;
  }
}

/** What keys that are hashes were seen with; made with the first such key. */
class SeenColumns {
  readonly #clients: Int32Array;
  readonly #subjects: Buffer;
  /** A length and one; 0: no subject. */
  readonly #lengths: Uint8Array;
  /** Texts of the configuration, so nothing is kept alive by them. */
  readonly #routes: (string | null)[];

  constructor(capacity: number) {
    this.#clients = new Int32Array(wordsOfKey * capacity);
    this.#subjects = Buffer.alloc(subjectBytes * capacity);
    this.#lengths = new Uint8Array(capacity);
    this.#routes = new Array<string | null>(capacity).fill(null);
  }

  get bytes(): number {
    const pointers = 8 * this.#routes.length;
    return this.#clients.byteLength + this.#subjects.byteLength + this.#lengths.byteLength + pointers;
  }

  set(slot: number, client: CounterKey, subject: string | null, route: string | null): void {
    this.#clients[wordsOfKey * slot] = client.a;
    this.#clients[wordsOfKey * slot + 1] = client.b;
    this.#clients[wordsOfKey * slot + 2] = client.c;
    this.#clients[wordsOfKey * slot + 3] = client.d;
    this.#routes[slot] = route;
    // Buffer.write writes no part of a character.
    this.#lengths[slot] = subject === null ? 0 : 1 + this.#subjects.write(subject, subjectBytes * slot, subjectBytes);
  }

  at(slot: number): SeenWith {
    const [a = 0, b = 0, c = 0, d = 0] = this.#clients.subarray(wordsOfKey * slot, wordsOfKey * (slot + 1));
    const length = (this.#lengths[slot] as number) - 1;
    const start = subjectBytes * slot;
    return {
      client: { a, b, c, d, isAddress: true },
      subject: length < 0 ? null : this.#subjects.toString("utf8", start, start + length),
      route: this.#routes[slot] ?? null,
    };
  }
}
