// What one thread notes of the last second, until it hands it over to the main thread. An admitted request costs the counts of
// the history and a branch. A refusal costs two look-ups and a few counts; of each client the first five in a second are kept. All
// is bounded, whatever clients do: to hand it over takes about a millisecond.
import { randomInt } from "node:crypto";
import { areEqualWords, type CounterKey, type KeyWords } from "../../core/counter-key.ts";
import type { ExchangeRecord } from "../../core/exchange-record.ts";
import type { Policy } from "../../core/policy.ts";
import type { UpstreamFault } from "../../core/upstream.ts";
import type { HistoryRow } from "./history.ts";
import { LargestCounts } from "./largest-counts.ts";
import type { CountedKeys, RefusedKey } from "./refused-keys.ts";
import { type KeptForms, keptText, type RefusedRequest, refusedRequest, wordsOf } from "./refused-request.ts";
import { type FailedRequests, FailureCounts } from "./upstream-failures.ts";

/** How much is remembered; 0: nothing. */
export interface RecentSizes {
  /** Refusals of all policies together. */
  readonly refusals: number;
  /** Refused keys of each policy. */
  readonly keys: number;
}

/** What a thread hands over. */
export interface RecentBatch {
  /** Some of those that were refused since the last batch, the oldest first. */
  readonly refusals: readonly RefusedRequest[];
  /** How many were refused. */
  readonly count: number;
  readonly keys: CountedKeys;
  readonly failures: readonly FailedRequests[];
}

/** As in the log, so that a client that retries all the time hides nobody. */
const keptPerClient = 5;

/** To post so many, of 500 bytes, takes half a millisecond. In a second no more are kept. */
const maxRefusals = 500;

/** Beside those, so that no flood of refusals hides why others get a 502. */
const maxFailures = 100;

/** To post so many takes half a millisecond. Of up to twice as many, those with the most refusals are handed over. */
const maxKeys = 1_000;

interface ThreadRecentOptions extends KeptForms {
  readonly sizes: RecentSizes;
  readonly history: HistoryRow;
}

interface CountedKey extends RefusedKey {
  readonly policy: Policy;
}

export class ThreadRecent {
  readonly history: HistoryRow;
  readonly #forms: KeptForms;
  #sizes: RecentSizes;
  readonly #firstRefused = new FirstOfClients(maxRefusals);
  readonly #firstFailed = new FirstOfClients(maxFailures);
  #refusals: RefusedRequest[] = [];
  #count = 0;
  #failures = new FailureCounts();
  /** By the hash of the policy and the key. */
  #keys = new LargestCounts<number, CountedKey>(maxKeys);
  /** Of `#keys`. */
  readonly #policies: Policy[] = [];

  constructor(options: ThreadRecentOptions) {
    this.#forms = options;
    this.history = options.history;
    this.#sizes = options.sizes;
  }

  /** Must be called once for each exchange, when it has ended. `path`: of its target; "" if none was read. */
  finish(exchange: ExchangeRecord, path: string): void {
    this.history.finished(exchange);
    if (exchange.problem !== null || exchange.fault !== null) this.#refused(exchange, path);
  }

  /** A request failed at the upstream. Its exchange ends later. */
  upstreamFailed({ reason, address }: UpstreamFault): void {
    this.history.upstreamFailed(reason);
    this.#failures.add({ reason, address, count: 1 });
  }

  /** From now on. */
  resize(sizes: RecentSizes): void {
    this.#sizes = sizes;
  }

  /** Returns what has been noted since the last call, as one batch or none. */
  take(): RecentBatch[] {
    if (this.#count === 0 && this.#keys.entries.size === 0 && this.#failures.all.length === 0) return [];
    this.#keys.prune();
    const policies = new Map(
      this.#policies.map((policy) => [
        policy,
        { name: policy.name, key: policy.key, rate: { kind: policy.rate.kind } },
      ]),
    );
    const keys = [...this.#keys.entries.values()].flatMap(({ policy, ...counted }) => {
      const identity = policies.get(policy);
      return identity === undefined ? [] : [{ policy: identity, ...counted }];
    });
    const counted = { keys: { keys, floor: this.#keys.floor }, failures: this.#failures.all };
    const batch = { refusals: this.#refusals, count: this.#count, ...counted };
    this.#refusals = [];
    this.#firstRefused.handOver();
    this.#firstFailed.handOver();
    this.#count = 0;
    this.#failures = new FailureCounts();
    this.#keys = new LargestCounts(maxKeys);
    this.#policies.length = 0;
    return [batch];
  }

  #refused(exchange: ExchangeRecord, path: string): void {
    const { decision, client, endedMs, fault } = exchange;
    // Other refusals were not made by a policy: their decision only says what is left.
    if (this.#sizes.keys > 0 && decision.outcome === "throttled") this.#countKey(exchange);
    if (this.#sizes.refusals === 0) return;
    this.#count += 1;
    const first = fault === null ? this.#firstRefused : this.#firstFailed;
    if (first.takes(client, endedMs)) this.#refusals.push(refusedRequest(exchange, path, this.#forms));
  }

  #countKey({ decision: { policy, key, client }, subject, route }: ExchangeRecord): void {
    let number = this.#policies.indexOf(policy);
    if (number === -1) number = this.#policies.push(policy) - 1;
    const hash = hashOf(key, number);
    const known = this.#keys.entries.get(hash);
    if (known === undefined) {
      const name = subject === null ? null : keptText(subject, 64);
      const seen = key.isAddress ? null : { client: wordsOf(client), subject: name, route };
      this.#keys.enter(hash, { policy, key: wordsOf(key), count: 1, error: 0, seen });
    } else if (known.policy === policy && isSame(known.key, key)) known.count += 1;
    // Two keys with one hash, once in a billion: the one that came later is not counted by itself.
    else this.#keys.floor += 1;
  }
}

/** Chooses the first requests of each client in a second, and none while those of two seconds are not handed over. */
class FirstOfClients {
  readonly #ofClient = new Map<string, number>();
  #taken = 0;
  #waiting = 0;
  #endsMs = Number.NEGATIVE_INFINITY;
  readonly #most: number;

  /** `most`: of all clients. */
  constructor(most: number) {
    this.#most = most;
  }

  takes(client: string, nowMs: number): boolean {
    if (nowMs >= this.#endsMs) {
      this.#ofClient.clear();
      this.#taken = 0;
      this.#endsMs = nowMs + 1_000;
    }
    if (this.#taken >= this.#most || this.#waiting >= 2 * this.#most) return false;
    const taken = this.#ofClient.get(client) ?? 0;
    if (taken >= keptPerClient) return false;
    this.#ofClient.set(client, taken + 1);
    this.#taken += 1;
    this.#waiting += 1;
    return true;
  }

  handOver(): void {
    this.#waiting = 0;
  }
}

function isSame(x: KeyWords, y: KeyWords): boolean {
  return areEqualWords(x, y) && x.isAddress === y.isAddress;
}

/** Random, so that nobody can choose addresses that have one hash. */
const [s0, s1, s2, s3] = [randomSecret(), randomSecret(), randomSecret(), randomSecret()];

function randomSecret(): number {
  return randomInt(2 ** 32) | 0;
}

function hashOf({ a, b, c, d }: CounterKey, policy: number): number {
  let hash = Math.imul(a ^ s0, 0x85ebca6b);
  hash = mixed(hash ^ b ^ s1);
  hash = mixed(hash ^ c ^ s2);
  hash = mixed(hash ^ d ^ s3);
  return mixed(hash ^ policy);
}

function mixed(value: number): number {
  let hash = value ^ (value >>> 16);
  hash = Math.imul(hash, 0x7feb352d);
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 0x846ca68b | 0);
  return hash ^ (hash >>> 16);
}
