// The last requests that were refused, or that the upstream failed, of all threads.
import { type FourWords, wordMask } from "../../core/counter-key.ts";
import { keptSubject, type RefusedRequest } from "./refused-request.ts";

/** Whose refusals are asked for. `network`: an address is one of 128 bits. `subject`: as it may be logged. */
export type RefusalsOf =
  | { readonly kind: "all" }
  | { readonly kind: "client"; readonly network: FourWords; readonly prefixBits: number }
  | { readonly kind: "key"; readonly key: FourWords }
  | { readonly kind: "subject"; readonly subject: string }
  | { readonly kind: "id" | "requestId"; readonly id: string };

export interface LastRefusals {
  /** The newest first. */
  readonly refusals: readonly RefusedRequest[];
  /** Whether there are no others that fit. */
  readonly isComplete: boolean;
}

/** A client with more than this part of the room displaces its own refusals. */
const share = 0.1;

/**
 * When there is no room for another one, the oldest of all is forgotten, or, if a client has more than a tenth of the room, the
 * oldest of that client. So a client that is refused all the time displaces only its own refusals.
 */
export class Refusals {
  readonly capacity: number;
  readonly #most: number;
  /** The oldest first. */
  readonly #kept = new Set<RefusedRequest>();
  /** Stands before the oldest. A new iterator would have to pass all that were forgotten. */
  readonly #oldest = this.#kept.values();
  /** Of each client, the oldest first. */
  readonly #ofClient = new Map<string, Set<RefusedRequest>>();
  /** Those of clients with more than their share: ten at most. */
  readonly #heavy = new Set<Set<RefusedRequest>>();

  /** `capacity`: refusals. `before`: the oldest first. */
  constructor(capacity: number, before: Iterable<RefusedRequest> = []) {
    this.capacity = capacity;
    this.#most = Math.max(1, Math.floor(capacity * share));
    for (const refusal of before) this.add(refusal);
  }

  get size(): number {
    return this.#kept.size;
  }

  [Symbol.iterator](): Iterator<RefusedRequest> {
    return this.#kept.values();
  }

  add(refusal: RefusedRequest): void {
    if (this.capacity === 0) return;
    if (this.#kept.size === this.capacity) this.#forget(this.#leaving(refusal.client));
    const own = this.#ofClient.get(refusal.client) ?? new Set<RefusedRequest>();
    this.#kept.add(refusal);
    this.#ofClient.set(refusal.client, own.add(refusal));
    if (own.size > this.#most) this.#heavy.add(own);
  }

  last(of: RefusalsOf, limit: number): LastRefusals {
    const found = [...this.#kept].filter(filterOf(of)).reverse();
    // Threads hand theirs over one after the other.
    found.sort((x, y) => y.atMs - x.atMs);
    return { refusals: found.slice(0, limit), isComplete: found.length <= limit };
  }

  /** Returns the one that makes room for another one of the client. */
  #leaving(client: string): RefusedRequest | undefined {
    const own = this.#ofClient.get(client);
    const [heaviest] = [...this.#heavy].sort((x, y) => y.size - x.size);
    const payer = own !== undefined && own.size >= this.#most ? own : heaviest;
    return (payer?.values() ?? this.#oldest).next().value;
  }

  #forget(refusal: RefusedRequest | undefined): void {
    if (refusal === undefined) return;
    const own = this.#ofClient.get(refusal.client) ?? new Set();
    this.#kept.delete(refusal);
    own.delete(refusal);
    if (own.size <= this.#most) this.#heavy.delete(own);
    if (own.size === 0) this.#ofClient.delete(refusal.client);
  }
}

function filterOf(of: RefusalsOf): (refusal: RefusedRequest) => boolean {
  switch (of.kind) {
    case "all":
      return () => true;
    case "client":
      return ({ clientKey }) => isWithin(clientKey, of.network, of.prefixBits);
    case "key":
      return ({ key }) => !key.isAddress && isWithin(key, of.key, 128);
    case "subject": {
      const kept = keptSubject(of.subject);
      return ({ subject }) => subject === kept;
    }
    case "id":
      return ({ id }) => id === of.id;
    case "requestId":
      return ({ requestId }) => requestId === of.id;
  }
}

/** Whether the first bits of two keys are the same. */
function isWithin(key: FourWords, { a, b, c, d }: FourWords, bits: number): boolean {
  return (
    ((key.d ^ d) & wordMask(bits - 96)) === 0 &&
    ((key.c ^ c) & wordMask(bits - 64)) === 0 &&
    ((key.b ^ b) & wordMask(bits - 32)) === 0 &&
    ((key.a ^ a) & wordMask(bits)) === 0
  );
}
