// The last refusals of one thread, found by X-Request-Id. All columns are made once, so a refusal leaves nothing for the
// garbage collector and keeps no text of a request alive. Nothing of a request's fields is kept, and of its target the path
// alone: the names in a query can be secrets as well as its values, and no policy and no route looks at them.
import type { Clock } from "../../core/clock.ts";
import type { CounterKey } from "../../core/counter-key.ts";
import type { ExchangeRecord, RequestSource } from "../../core/exchange-record.ts";
import type { RefusalReason } from "../../core/local-reply.ts";
import { resetSecond } from "../../core/response-fields.ts";
import { ClientShares } from "./client-shares.ts";
import type { KeyWords } from "./sketch.ts";
import { hashOfText, none, SlotIndex } from "./slot-index.ts";

/** Why a request was answered so. */
export interface Refusal {
  /** X-Request-Id. */
  readonly id: string;
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
  /** The id of the rule that refused it; null if none did. */
  readonly rule: string | null;
}

/** What was refused since another time. */
export interface RefusalsSince {
  /** The number of the last refusal; the first has 1. */
  readonly last: number;
  /** How many there were. */
  readonly count: number;
  /** Some of them, the oldest first. */
  readonly sample: readonly Refusal[];
}

// The texts of a refusal, one after the other, with room for the longest each.
const room = { id: 200, target: 256, client: 48, method: 32, subject: 96 } as const;
const at = { id: 0, target: 200, client: 456, method: 504, subject: 536 } as const;
const textBytes = 632;
const textsOf = { id: 0, target: 1, client: 2, method: 3, subject: 4 } as const;
const texts = 5;

type TextName = keyof typeof room;

const numbersOf = { number: 0, atMs: 1, reset: 2, limit: 3, remaining: 4, retryAfter: 5 } as const;
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
  readonly #isIndexed: Uint8Array;
  readonly #hasSubject: Uint8Array;
  // Texts of the code and of the configuration, of which nothing else is kept alive.
  readonly #sources: RequestSource[];
  readonly #reasons: (RefusalReason | null)[];
  readonly #policies: string[];
  readonly #routes: (string | null)[];
  readonly #rules: (string | null)[];
  /** By the id. */
  readonly #index: SlotIndex;
  /** Which refusal goes when there is no room. */
  readonly #shares: ClientShares;

  /** `capacity`: refusals, from 1. */
  constructor(capacity: number, clock: Pick<Clock, "wallMsAt">) {
    this.capacity = capacity;
    this.#clock = clock;
    this.#texts = Buffer.from(new ArrayBuffer(textBytes * capacity));
    this.#lengths = new Uint16Array(texts * capacity);
    this.#numbers = new Float64Array(numbers * capacity);
    this.#keys = new Int32Array(4 * capacity);
    this.#statuses = new Uint16Array(capacity);
    this.#isAddress = new Uint8Array(capacity);
    this.#isIndexed = new Uint8Array(capacity);
    this.#hasSubject = new Uint8Array(capacity);
    this.#sources = new Array<RequestSource>(capacity).fill("proxy");
    this.#reasons = new Array<RefusalReason | null>(capacity).fill(null);
    this.#policies = new Array<string>(capacity).fill("");
    this.#routes = new Array<string | null>(capacity).fill(null);
    this.#rules = new Array<string | null>(capacity).fill(null);
    this.#index = new SlotIndex(capacity);
    this.#shares = new ClientShares(capacity);
  }

  get bytes(): number {
    const typed = [this.#texts, this.#lengths, this.#numbers, this.#keys, this.#statuses];
    const flags = 3 * this.#isAddress.byteLength;
    const pointers = 5 * 8 * this.capacity;
    const columns = typed.reduce((sum, { byteLength }) => sum + byteLength, flags + pointers);
    return columns + this.#index.bytes + this.#shares.bytes;
  }

  /** How many are kept. */
  get size(): number {
    return this.#size;
  }

  /** `target`: as it may be logged, in ASCII. `subject`: that of the exchange, which is made anew at each reading. */
  add(exchange: ExchangeRecord, reason: RefusalReason, target: string, subject: string | null): void {
    const { decision, id, status, endedMs } = exchange;
    const slot = this.#slotFor(decision.client);
    const atMs = exchange.respondedMs ?? endedMs;
    const wallMs = this.#clock.wallMsAt(atMs);
    this.#last += 1;
    const start = numbers * slot;
    this.#numbers[start + numbersOf.number] = this.#last;
    this.#numbers[start + numbersOf.atMs] = wallMs;
    this.#numbers[start + numbersOf.reset] = resetSecond(decision, atMs, wallMs);
    this.#numbers[start + numbersOf.limit] = decision.limit;
    this.#numbers[start + numbersOf.remaining] = decision.remaining;
    this.#numbers[start + numbersOf.retryAfter] = retryAfter(status, reason, decision.resetMs - atMs);
    this.#statuses[slot] = status;
    this.#setKey(slot, decision.key);
    this.#sources[slot] = exchange.source;
    this.#reasons[slot] = reason;
    this.#policies[slot] = decision.policy.name;
    this.#routes[slot] = exchange.route;
    this.#rules[slot] = null;
    this.#hasSubject[slot] = Number(subject !== null);
    this.#write(slot, "target", target);
    this.#write(slot, "client", exchange.client);
    this.#write(slot, "method", exchange.method);
    if (subject !== null) this.#writeSubject(slot, subject);
    this.#write(slot, "id", id);
    this.#indexId(slot, id);
  }

  /** Returns the last refusal with this id; null if there is none. */
  find(id: string): Refusal | null {
    const slot = this.#find(hashOfText(id), id);
    return slot === none ? null : this.#at(slot);
  }

  /**
   * Returns what was refused after the refusal with the number `after`, with a sample of at most `limit`: new ones, of as
   * many clients as possible.
   */
  since(after: number, limit: number): RefusalsSince {
    const first: number[] = [];
    const others: number[] = [];
    const clients = new Set<number>();
    let slot = this.#shares.newest;
    for (let looked = 0; slot !== none && looked < maxLookedAt && first.length < limit; looked += 1) {
      if (this.#numberOf(slot) <= after) break;
      const client = this.#shares.clientOf(slot);
      if (!clients.has(client)) first.push(slot);
      else if (others.length < limit) others.push(slot);
      clients.add(client);
      slot = this.#shares.olderThan(slot);
    }
    const sample = [...first, ...others].slice(0, limit).sort((x, y) => this.#numberOf(x) - this.#numberOf(y));
    return { last: this.#last, count: Math.max(0, this.#last - after), sample: sample.map((each) => this.#at(each)) };
  }

  /** Returns a slot that is the newest of the client. */
  #slotFor(client: CounterKey): number {
    let slot = this.#size;
    if (slot < this.capacity) this.#size += 1;
    else {
      slot = this.#shares.takeOldest(client);
      // A later request may have had the same id.
      if (this.#isIndexed[slot] === 1) this.#index.remove(slot);
    }
    this.#shares.add(slot, client);
    return slot;
  }

  /** The latest refusal with an id is the one that is found: a trusted peer may use an id again. */
  #indexId(slot: number, id: string): void {
    const hash = hashOfText(id);
    this.#isIndexed[slot] = 0;
    const before = this.#find(hash, id);
    if (before !== none) {
      this.#index.remove(before);
      this.#isIndexed[before] = 0;
    }
    this.#index.add(hash, slot);
    this.#isIndexed[slot] = 1;
  }

  #find(hash: number, id: string): number {
    for (let position = this.#index.next(hash); position !== none; position = this.#index.next(hash, position)) {
      const slot = this.#index.slotAt(position);
      if (this.#read(slot, "id") === id) return slot;
    }
    return none;
  }

  #setKey(slot: number, { a, b, c, d, isAddress }: CounterKey): void {
    this.#keys[4 * slot] = a;
    this.#keys[4 * slot + 1] = b;
    this.#keys[4 * slot + 2] = c;
    this.#keys[4 * slot + 3] = d;
    this.#isAddress[slot] = Number(isAddress);
  }

  /** `text` is ASCII. Most are so short that a call into Node would take longer. */
  #write(slot: number, name: TextName, text: string): void {
    const length = Math.min(text.length, room[name]);
    const start = textBytes * slot + at[name];
    this.#lengths[texts * slot + textsOf[name]] = length;
    for (let i = 0; i < length; i += 1) this.#texts[start + i] = text.charCodeAt(i);
  }

  #writeSubject(slot: number, subject: string): void {
    const length = this.#texts.write(subject, textBytes * slot + at.subject, room.subject);
    this.#lengths[texts * slot + textsOf.subject] = length;
  }

  #read(slot: number, name: TextName): string {
    const start = textBytes * slot + at[name];
    const end = start + (this.#lengths[texts * slot + textsOf[name]] as number);
    return this.#texts.toString(name === "subject" ? "utf8" : "latin1", start, end);
  }

  #numberOf(slot: number): number {
    return this.#numbers[numbers * slot + numbersOf.number] as number;
  }

  #at(slot: number): Refusal {
    const [, atMs = 0, reset = 0, limit = 0, remaining = 0, wait = 0] = this.#numbers.subarray(numbers * slot);
    const [a = 0, b = 0, c = 0, d = 0] = this.#keys.subarray(4 * slot);
    return {
      ...{ id: this.#read(slot, "id"), atMs, source: this.#sources[slot] as RequestSource },
      ...{ method: this.#read(slot, "method"), target: this.#read(slot, "target"), route: this.#routes[slot] ?? null },
      client: this.#read(slot, "client"),
      subject: this.#hasSubject[slot] === 1 ? this.#read(slot, "subject") : null,
      ...{ status: this.#statuses[slot] as number, reason: this.#reasons[slot] as RefusalReason },
      policy: this.#policies[slot] as string,
      key: { a, b, c, d, isAddress: this.#isAddress[slot] === 1 },
      ...{ limit, remaining, reset, retryAfterSeconds: wait === 0 ? null : wait },
      rule: this.#rules[slot] ?? null,
    };
  }
}

/** Returns what the response says, as in ResponseFields; 0 without one. */
function retryAfter(status: number, reason: RefusalReason, leftMs: number): number {
  if (status !== 429) return 0;
  return reason === "too_many_refusals" ? 1 : Math.max(1, Math.ceil(leftMs / 1000));
}
