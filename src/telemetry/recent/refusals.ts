// The last refusals of one thread, found by X-Request-Id. All columns are made once, so a refusal leaves nothing for the
// garbage collector and keeps no text of a request alive. Of a request's fields X-Request-Id is kept, and of its target the path
// alone: the names in a query can be secrets as well as its values, and no policy and no route looks at them.
import type { Clock } from "../../core/clock.ts";
import { type CounterKey, wordMask } from "../../core/counter-key.ts";
import type { ExchangeRecord, RequestSource } from "../../core/exchange-record.ts";
import { type RefusalReason, ruleOf } from "../../core/local-reply.ts";
import { resetSecond, retryAfterSeconds } from "../../core/response-fields.ts";
import type { KeyWords } from "./sketch.ts";
import { hashOfWords, none, SlotIndex } from "./slot-index.ts";

/** Why a request was answered so. */
export interface RefusedRequest {
  /** The gateway's own. */
  readonly id: string;
  /** The X-Request-Id that the request came with, without what looks like a credential; null: the answer had `id`. */
  readonly requestId: string | null;
  /** It was found by its `requestId`, and others had the same before it. */
  readonly isRepeated?: true;
  /** When it was answered, in Unix milliseconds. */
  readonly atMs: number;
  readonly source: RequestSource;
  /** Cut to 32 characters. */
  readonly method: string;
  /** The path without its query, cut to 256 characters; "" if none was read. */
  readonly target: string;
  readonly route: string | null;
  /** The address or network that is charged. */
  readonly client: string;
  /** As it may be logged, cut to 96 bytes. */
  readonly subject: string | null;
  /** The status that was sent; 0 if none was. */
  readonly status: number;
  readonly reason: RefusalReason;
  /** The policy that the response speaks of, which has refused the request only if the reason says so. */
  readonly policy: string;
  /** Its counter. */
  readonly key: KeyWords;
  /** The values of the RateLimit fields. `reset`: in Unix seconds. */
  readonly limit: number;
  readonly remaining: number;
  readonly reset: number;
  /** The value of Retry-After; null without one. */
  readonly retryAfterSeconds: number | null;
  /** The id of the rule by which it was blocked; null if it was not. */
  readonly rule: string | null;
  /** The rule of HTTP that it or its response breaks; null: none that is known. */
  readonly brokenRule: string | null;
}

/** Whose refusals are asked for. `network`: an address is one of 128 bits. `subject`: as it may be logged. */
export type RefusalsOf =
  | { readonly kind: "all" }
  | { readonly kind: "client"; readonly network: Omit<KeyWords, "isAddress">; readonly prefixBits: number }
  | { readonly kind: "key"; readonly key: Omit<KeyWords, "isAddress"> }
  | { readonly kind: "subject"; readonly subject: string }
  | { readonly kind: "id" | "requestId"; readonly id: string };

export interface LastRefusals {
  /** The newest first. */
  readonly refusals: readonly RefusedRequest[];
  /** Whether there are no others that fit. */
  readonly isComplete: boolean;
}

/** What was refused since another time. */
export interface RefusalsSince {
  /** The number of the last refusal; the first has 1. */
  readonly last: number;
  /** How many there were. */
  readonly count: number;
  /** Some of them, the oldest first. */
  readonly sample: readonly RefusedRequest[];
}

// The texts of a refusal, one right after the other, so that short ones share a cache line: the most bytes of each.
const [idBytes, requestIdBytes, targetBytes] = [36, 128, 256] as const;
const [clientBytes, methodBytes, subjectBytes] = [48, 32, 96] as const;
const texts = 6;
const textBytes = idBytes + requestIdBytes + targetBytes + clientBytes + methodBytes + subjectBytes;

/** Its number, the instant, and the values that the response told; as `#at` reads them. */
const numbers = 6;

/** Of the newest refusals, so many are looked at for a sample of different clients. */
const maxLookedAt = 256;

export class Refusals {
  readonly capacity: number;
  readonly #clock: Pick<Clock, "wallMsAt">;
  #size = 0;
  #last = 0;
  readonly #texts: Buffer;
  readonly #lengths: Uint16Array;
  readonly #numbers: Float64Array;
  readonly #keys: Int32Array;
  readonly #statuses: Uint16Array;
  readonly #isAddress: Uint8Array;
  readonly #hasSubject: Uint8Array;
  // Texts of the code and of the configuration, of which nothing else is kept alive.
  readonly #sources: RequestSource[];
  readonly #reasons: (RefusalReason | null)[];
  readonly #policies: string[];
  readonly #routes: (string | null)[];
  readonly #rules: (string | null)[];
  readonly #brokenRules: (string | null)[];
  /** Which refusal goes when there is no room. */
  readonly #eviction: RefusalEviction;

  /** `capacity`: refusals, from 1. */
  constructor(capacity: number, clock: Pick<Clock, "wallMsAt">) {
    this.capacity = capacity;
    this.#clock = clock;
    this.#texts = Buffer.alloc(textBytes * capacity);
    this.#lengths = new Uint16Array(texts * capacity);
    this.#numbers = new Float64Array(numbers * capacity);
    this.#keys = new Int32Array(4 * capacity);
    this.#statuses = new Uint16Array(capacity);
    this.#isAddress = new Uint8Array(capacity);
    this.#hasSubject = new Uint8Array(capacity);
    this.#sources = new Array<RequestSource>(capacity).fill("proxy");
    this.#reasons = new Array<RefusalReason | null>(capacity).fill(null);
    this.#policies = new Array<string>(capacity).fill("");
    this.#routes = new Array<string | null>(capacity).fill(null);
    this.#rules = new Array<string | null>(capacity).fill(null);
    this.#brokenRules = new Array<string | null>(capacity).fill(null);
    this.#eviction = new RefusalEviction(capacity);
  }

  get bytes(): number {
    const typed = [this.#texts, this.#lengths, this.#numbers, this.#keys, this.#statuses];
    const flags = 2 * this.#isAddress.byteLength;
    const pointers = 6 * 8 * this.capacity;
    const columns = typed.reduce((sum, { byteLength }) => sum + byteLength, flags + pointers);
    return columns + this.#eviction.bytes;
  }

  /** How many are kept. */
  get size(): number {
    return this.#size;
  }

  /** The texts are as they may be kept; all but `subject`, which the exchange makes anew at each reading, are ASCII. */
  add(exchange: ExchangeRecord, reason: RefusalReason, target: string, subject: string | null, sent = ""): void {
    const { decision, id, status, endedMs } = exchange;
    const slot = this.#slotFor(decision.client);
    const atMs = exchange.respondedMs ?? endedMs;
    const wallMs = this.#clock.wallMsAt(atMs);
    this.#last += 1;
    const number = numbers * slot;
    this.#numbers[number] = this.#last;
    this.#numbers[number + 1] = wallMs;
    this.#numbers[number + 2] = resetSecond(decision, atMs, wallMs);
    this.#numbers[number + 3] = decision.limit;
    this.#numbers[number + 4] = decision.remaining;
    this.#numbers[number + 5] = status === 429 ? retryAfterSeconds(reason, decision.resetMs - atMs) : 0;
    this.#statuses[slot] = status;
    this.#setKey(slot, decision.key);
    this.#sources[slot] = exchange.source;
    this.#reasons[slot] = reason;
    this.#policies[slot] = decision.policy.name;
    this.#routes[slot] = exchange.route;
    this.#rules[slot] = exchange.rule;
    this.#brokenRules[slot] = ruleOf(exchange.detail);
    this.#hasSubject[slot] = Number(subject !== null);
    const start = textBytes * slot;
    const lengths = texts * slot;
    const idEnd = this.#write(lengths, start, idBytes, id);
    const requestIdEnd = this.#write(lengths + 1, idEnd, requestIdBytes, sent);
    const targetEnd = this.#write(lengths + 2, requestIdEnd, targetBytes, target);
    const clientEnd = this.#write(lengths + 3, targetEnd, clientBytes, exchange.client);
    const methodEnd = this.#write(lengths + 4, clientEnd, methodBytes, exchange.method);
    // No part of a character is written.
    this.#lengths[lengths + 5] = subject === null ? 0 : this.#texts.write(subject, methodEnd, subjectBytes);
  }

  /**
   * Returns what was refused after the refusal with the number `after`, with a sample of at most `limit`: new ones, of as
   * many clients as possible.
   */
  since(after: number, limit: number): RefusalsSince {
    const first: number[] = [];
    const others: number[] = [];
    const clients = new Set<number>();
    let slot = this.#eviction.newest;
    for (let looked = 0; slot !== none && looked < maxLookedAt && first.length < limit; looked += 1) {
      if (this.#numberOf(slot) <= after) break;
      const client = this.#eviction.clientOf(slot);
      if (!clients.has(client)) first.push(slot);
      else if (others.length < limit) others.push(slot);
      clients.add(client);
      slot = this.#eviction.olderThan(slot);
    }
    const sample = [...first, ...others].slice(0, limit).sort((x, y) => this.#numberOf(x) - this.#numberOf(y));
    return { last: this.#last, count: Math.max(0, this.#last - after), sample: sample.map((each) => this.#at(each)) };
  }

  /** Looks at each refusal at most once, without an object for those that are not returned. */
  last(of: RefusalsOf, limit: number): LastRefusals {
    const fits = this.#filter(of);
    const refusals: RefusedRequest[] = [];
    for (let slot = this.#eviction.newest; slot !== none; slot = this.#eviction.olderThan(slot)) {
      if (!fits(slot)) continue;
      if (refusals.length === limit) return { refusals, isComplete: false };
      refusals.push(this.#at(slot));
    }
    return { refusals, isComplete: true };
  }

  #filter(of: RefusalsOf): (slot: number) => boolean {
    switch (of.kind) {
      case "all":
        return () => true;
      case "client":
        return (slot) => this.#eviction.isWithin(slot, of.network, of.prefixBits);
      case "key":
        return (slot) => this.#isAddress[slot] === 0 && this.#hasKey(slot, of.key);
      case "id":
      case "requestId": {
        const bytes = Buffer.from(of.id, "latin1");
        return (slot) => this.#isText(slot, of.kind === "id" ? 0 : 1, bytes);
      }
      case "subject": {
        const bytes = Buffer.alloc(subjectBytes);
        const written = bytes.subarray(0, bytes.write(of.subject));
        return (slot) => this.#hasSubject[slot] === 1 && this.#isText(slot, texts - 1, written);
      }
    }
  }

  #hasKey(slot: number, { a, b, c, d }: Omit<KeyWords, "isAddress">): boolean {
    const [keys, at] = [this.#keys, 4 * slot];
    return keys[at] === a && keys[at + 1] === b && keys[at + 2] === c && keys[at + 3] === d;
  }

  #isText(slot: number, text: number, bytes: Uint8Array): boolean {
    const lengths = texts * slot;
    if (this.#lengths[lengths + text] !== bytes.length) return false;
    let start = textBytes * slot;
    for (let i = 0; i < text; i += 1) start += this.#lengths[lengths + i] as number;
    // Most differ soon, so that a call into Node would take longer.
    for (let i = 0; i < bytes.length; i += 1) if (this.#texts[start + i] !== bytes[i]) return false;
    return true;
  }

  /** Returns a slot that is the newest of the client. */
  #slotFor(client: CounterKey): number {
    let slot = this.#size;
    if (slot < this.capacity) this.#size += 1;
    else slot = this.#eviction.takeOldest(client);
    this.#eviction.add(slot, client);
    return slot;
  }

  #setKey(slot: number, { a, b, c, d, isAddress }: CounterKey): void {
    this.#keys[4 * slot] = a;
    this.#keys[4 * slot + 1] = b;
    this.#keys[4 * slot + 2] = c;
    this.#keys[4 * slot + 3] = d;
    this.#isAddress[slot] = Number(isAddress);
  }

  /** Returns where the text ends, which is ASCII. Most are so short that a call into Node would take longer. */
  #write(lengthAt: number, start: number, most: number, text: string): number {
    const length = Math.min(text.length, most);
    this.#lengths[lengthAt] = length;
    for (let i = 0; i < length; i += 1) this.#texts[start + i] = text.charCodeAt(i);
    return start + length;
  }

  /** Returns id, requestId, target, client, method and subject. */
  #textsOf(slot: number): string[] {
    let start = textBytes * slot;
    return Array.from(this.#lengths.subarray(texts * slot, texts * (slot + 1)), (length, i) => {
      const text = this.#texts.toString(i === texts - 1 ? "utf8" : "latin1", start, start + length);
      start += length;
      return text;
    });
  }

  #numberOf(slot: number): number {
    return this.#numbers[numbers * slot] as number;
  }

  #at(slot: number): RefusedRequest {
    const [, atMs = 0, reset = 0, limit = 0, remaining = 0, wait = 0] = this.#numbers.subarray(numbers * slot);
    const [a = 0, b = 0, c = 0, d = 0] = this.#keys.subarray(4 * slot);
    const [id = "", requestId = "", target = "", client = "", method = "", subject = ""] = this.#textsOf(slot);
    return {
      ...{ id, requestId: requestId === "" ? null : requestId },
      ...{ atMs, source: this.#sources[slot] as RequestSource, method, target },
      ...{ route: this.#routes[slot] ?? null, client, subject: this.#hasSubject[slot] === 1 ? subject : null },
      ...{ status: this.#statuses[slot] as number, reason: this.#reasons[slot] as RefusalReason },
      policy: this.#policies[slot] as string,
      key: { a, b, c, d, isAddress: this.#isAddress[slot] === 1 },
      ...{ limit, remaining, reset, retryAfterSeconds: wait === 0 ? null : wait },
      ...{ rule: this.#rules[slot] ?? null, brokenRule: this.#brokenRules[slot] ?? null },
    };
  }
}

/** A client with more than this part of the room displaces its own refusals. */
const share = 0.1;

/**
 * Chooses which refusal is forgotten when there is no room for another one: the oldest of all, or, if a client has more
 * than a tenth of the room, the oldest of that client. So a client that is refused all the time displaces only its own
 * refusals. The lists are typed arrays: each slot is in the list of all, and in that of its client.
 */
class RefusalEviction {
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
