// Lists the keys that have used most, or were used last, with their names. Takes at most a twentieth of the thread's time,
// however often it is asked: questions that come while the table is read wait for the next reading, which answers all of them.
import { setImmediate } from "node:timers/promises";
import type { Identity, ListedTokens } from "../core/authentication.ts";
import type { Clock } from "../core/clock.ts";
import { addressKey, CounterKey, clientOfKey, counterText, hexOfKey, wordMask } from "../core/counter-key.ts";
import { parseCidr } from "../core/ip-address.ts";
import { Ask } from "./counters.ts";
import type { LimiterView } from "./limiter-view.ts";
import { createKeyFinder, keysOfIdentities, type NameContext } from "./named-keys.ts";
import type { CheckRow } from "./policies.ts";
import { isByAddress } from "./request-keys.ts";
import { BusyError, isAddressKey, keyLine, kinds } from "./table/layout.ts";
import { type SlotSpan, type TopKey, TopKeys, type TopQuery } from "./table/top-keys.ts";

export interface ListQuery {
  /** The name of a policy; null: all. */
  readonly policy: string | null;
  readonly sort: "used" | "recent";
  /** The beginning of a shown name, or a network; "": all. */
  readonly search: string;
  /** 1 to `maxListed`. */
  readonly limit: number;
}

const maxListed = 1000;

export interface ListedKey {
  readonly policy: string;
  /** An address, the name of a listed token, or the first digits of a hash. */
  readonly name: string;
  /** A name under which it is found and forgiven, such as `client:…`; null for a network that is counted as one. */
  readonly id: string | null;
  /** What is counted as one in place of keys without room. */
  readonly coarse: "client" | "network" | null;
  /** Of a key of a listed token that has such parts. */
  readonly method: string | null;
  readonly route: string | null;
  readonly used: number;
  readonly limit: number;
  readonly remaining: number;
  /** The monotonic instant at which more becomes available; null: not known. */
  readonly resetMs: number | null;
  /** The monotonic instant of the newest admission; null: not known. */
  readonly lastMs: number | null;
}

/** The pause after a reading is so many times as long as the thread was busy with it: at most 5 % of its time is spent. */
const pauseFactor = 19;
/** So many different questions are answered by one reading. */
const maxQueries = 8;
/** So many keys are named in one turn. */
const namedInPortion = 100;
/** Digits of a hash that are shown. */
const shownDigits = 12;

interface WaitingQuery {
  readonly query: ListQuery;
  readonly answer: PromiseWithResolvers<readonly ListedKey[]>;
}

interface ListSource {
  readonly view: LimiterView;
  readonly context: NameContext;
}

export class KeyListing {
  readonly #source: () => ListSource;
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #waiting = new Map<string, WaitingQuery>();
  #isReading = false;
  #names: {
    readonly of: LimiterView;
    readonly list: ListedTokens | null;
    readonly probe: string;
    readonly names: KeyNames;
  } | null = null;

  /** `source`: what is in force. */
  constructor(source: () => ListSource, clock: Pick<Clock, "monotonicMs">) {
    this.#source = source;
    this.#clock = clock;
  }

  /** Those who ask the same while they wait share an answer. */
  top(query: ListQuery): Promise<readonly ListedKey[]> {
    const limit = Math.min(maxListed, Math.max(1, query.limit));
    const id = JSON.stringify([query.policy, query.sort, query.search, limit]);
    const waiting = this.#waiting.get(id) ?? { query: { ...query, limit }, answer: Promise.withResolvers() };
    this.#waiting.set(id, waiting);
    if (!this.#isReading) void this.#read();
    return waiting.answer.promise;
  }

  async #read(): Promise<void> {
    this.#isReading = true;
    while (this.#waiting.size > 0) {
      const asked = [...this.#waiting].slice(0, maxQueries);
      for (const [id] of asked) this.#waiting.delete(id);
      const busyMs = await this.#answer(asked.map(([, waiting]) => waiting));
      await new Promise<void>((resolve) => setTimeout(resolve, pauseFactor * busyMs).unref());
    }
    this.#isReading = false;
  }

  /** Returns how long it was busy. Never rejects: the answers do. */
  async #answer(asked: readonly WaitingQuery[]): Promise<number> {
    const watch = new BusyTime(this.#clock);
    try {
      const source = this.#source();
      const lists = await this.#find(
        source,
        asked.map(({ query }) => query),
        watch,
      );
      for (const [i, { query, answer }] of asked.entries()) {
        answer.resolve(await this.#named(source, query, lists[i] ?? [], watch));
      }
    } catch (error) {
      for (const { answer } of asked) answer.reject(error);
    }
    return watch.busyMs;
  }

  async #find(
    source: ListSource,
    queries: readonly ListQuery[],
    watch: BusyTime,
  ): Promise<ReturnType<TopKeys["lists"]>> {
    const { view, context } = source;
    const names = await this.#namesOf(source, watch);
    const top = watch.during(() => {
      const search = {
        addressText: (key: Parameters<typeof clientOfKey>[0]) => clientOfKey(key, context.ipv6Prefix),
        hashesNamed: (text: string) => names.startingWith(text),
      };
      const wanted = queries.map(({ policy, sort, search: text, limit }) => ({
        // No policy has such a slot.
        slot: policy === null ? null : (view.rows.find((row) => row.policy.name === policy)?.slot ?? -1),
        ...{ sort, limit },
        matches: createKeySearch(text, search),
      }));
      return new TopKeys(view.table.memory, wanted, spansOf(view, this.#clock.monotonicMs()));
    });
    while (!watch.during(() => top.readPortion())) await setImmediate();
    return top.lists();
  }

  async #named(
    source: ListSource,
    { sort }: ListQuery,
    keys: readonly TopKey[],
    watch: BusyTime,
  ): Promise<ListedKey[]> {
    const names = await this.#namesOf(source, watch);
    const listed = new Map<string, ListedKey>();
    for (let i = 0; i < keys.length; i += namedInPortion) {
      await setImmediate();
      watch.during(() => {
        for (const key of keys.slice(i, i + namedInPortion)) {
          const one = names.listed(key, this.#clock.monotonicMs());
          // A key that has moved while the table was read may have been read twice.
          if (one !== null) listed.set(`${key.slot} ${key.kind} ${key.words.join(" ")}`, one);
        }
      });
    }
    const all = [...listed.values()];
    return sort === "used" ? all.sort((a, b) => b.used - a.used) : all;
  }

  /** Made again when the list of tokens, the limiter or the hash of keys is another one. */
  async #namesOf({ view, context }: ListSource, watch: BusyTime): Promise<KeyNames> {
    const probe = probeOf(view, context);
    const made = this.#names;
    if (made !== null && made.of === view && made.list === context.listed && made.probe === probe) return made.names;
    const names = await KeyNames.create(view, context, watch);
    this.#names = { of: view, list: context.listed, probe, names };
    return names;
  }
}

/** How long something kept the thread. */
class BusyTime {
  busyMs = 0;
  readonly #clock: Pick<Clock, "monotonicMs">;

  constructor(clock: Pick<Clock, "monotonicMs">) {
    this.#clock = clock;
  }

  during<T>(run: () => T): T {
    const beganMs = this.#clock.monotonicMs();
    try {
      return run();
    } finally {
      this.busyMs += this.#clock.monotonicMs() - beganMs;
    }
  }
}

function spansOf({ rows }: LimiterView, nowMs: number): (SlotSpan | undefined)[] {
  const spans: (SlotSpan | undefined)[] = [];
  for (const { slot, policy, counters } of rows) {
    spans[slot] = { ...counters.spanAt(nowMs), hasInstants: policy.rate.kind === "sliding" };
  }
  return spans;
}

/** The hash of a subject that nobody has: another one if the keys are hashed by another secret. */
function probeOf({ rows }: LimiterView, context: NameContext): string {
  const row = rows.find(({ policy }) => !isByAddress(policy));
  const keys = row === undefined ? [] : (createKeyFinder({ kind: "client", value: "::" }, context)?.(row).keys ?? []);
  return keys.map(({ key }) => hexOfKey(key)).join();
}

interface NamedHash {
  readonly name: string;
  readonly limit: number;
  readonly method: string | null;
  readonly route: string | null;
}

/** The names of the keys of a table. */
class KeyNames {
  readonly #context: NameContext;
  readonly #rows: ReadonlyMap<number, CheckRow>;
  readonly #view: LimiterView;
  /** Of the keys of listed tokens, by slot and by their digits. */
  readonly #named: ReadonlyMap<number, Map<string, NamedHash>>;

  private constructor(view: LimiterView, context: NameContext) {
    this.#context = context;
    this.#view = view;
    this.#rows = new Map(view.rows.map((row) => [row.slot, row]));
    this.#named = new Map(view.rows.map(({ slot }) => [slot, new Map()]));
  }

  /** Hashes the keys of all listed tokens, in portions. */
  static async create(view: LimiterView, context: NameContext, watch: BusyTime): Promise<KeyNames> {
    const names = new KeyNames(view, context);
    const byName = watch.during(() => Map.groupBy(context.listed?.identities() ?? [], ({ tokenName }) => tokenName));
    let left = namedInPortion;
    for (const [name, identities] of byName) {
      if (name !== null) watch.during(() => names.#add(name, identities));
      left -= 1;
      if (left === 0) await setImmediate();
      left ||= namedInPortion;
    }
    return names;
  }

  #add(name: string, identities: readonly Identity[]): void {
    for (const row of this.#view.rows) {
      for (const { key, limit, method, route } of keysOfIdentities(row, identities, this.#context).keys) {
        // It was charged before it was exempt.
        const named = { name, limit: limit || row.policy.limit, method, route };
        this.#named.get(row.slot)?.set(hexOfKey(key), named);
      }
    }
  }

  startingWith(text: string): ReadonlyMap<number, ReadonlySet<number>> {
    const words = (named: ReadonlyMap<string, NamedHash>): Set<number> =>
      new Set(
        [...named].flatMap(([hex, { name }]) =>
          name.startsWith(text) ? [Number.parseInt(hex.slice(0, 8), 16) | 0] : [],
        ),
      );
    return new Map([...this.#named].map(([slot, named]) => [slot, words(named)]));
  }

  /** Null if its policy is gone. */
  listed({ slot, kind, words: [a, b, c, d], units, ageMs }: TopKey, nowMs: number): ListedKey | null {
    const row = this.#rows.get(slot);
    if (row === undefined) return null;
    const { policy } = row;
    const isOwn = kind === kinds.own;
    const key = new CounterKey(a, b, c, d, !isOwn || isByAddress(policy));
    const hex = key.isAddress ? "" : hexOfKey(key);
    const named = this.#named.get(slot)?.get(hex);
    const found = named ?? {
      name: this.#nameOf(key, kind, hex),
      limit: this.#limitOf(row, key, isOwn),
      method: null,
      route: null,
    };
    const id =
      named !== undefined
        ? `token:${named.name}`
        : kind === kinds.network
          ? null
          : isOwn
            ? counterText(key, this.#context.ipv6Prefix)
            : `client:${found.name}`;
    const state = isOwn ? this.#stateOf(row, key, found.limit, nowMs) : null;
    const used = state?.units ?? units;
    return {
      ...{ policy: policy.name, ...found, id, used },
      coarse: isOwn ? null : kind === kinds.network ? "network" : "client",
      remaining: Math.max(0, found.limit - used),
      resetMs: state?.resetMs ?? null,
      lastMs: ageMs === null ? null : nowMs - ageMs,
    };
  }

  #nameOf(key: CounterKey, kind: number, hex: string): string {
    if (!key.isAddress) return hex.slice(0, shownDigits);
    if (kind !== kinds.network) return clientOfKey(key, this.#context.ipv6Prefix);
    const isIpv4 = key.a === 0 && key.b === 0 && key.c === 0xffff;
    return isIpv4 ? `${clientOfKey(key, 128)}/24` : clientOfKey(key, 48);
  }

  #limitOf(row: CheckRow, key: CounterKey, isOwn: boolean): number {
    const isForAll = row.readLimit === null && row.runtimeRules.isEmpty;
    if (!isOwn || !key.isAddress || isForAll) return row.policy.limit;
    const value = clientOfKey(key, this.#context.ipv6Prefix);
    const limit = createKeyFinder({ kind: "client", value }, this.#context)?.(row).keys[0]?.limit ?? row.policy.limit;
    // It was charged before it was exempt.
    return limit === 0 ? row.policy.limit : limit;
  }

  /** Null if another thread is at work there, or nothing counts any more. */
  #stateOf(row: CheckRow, key: CounterKey, limit: number, nowMs: number) {
    const { counters, policy } = row;
    const ask = Object.assign(new Ask(), { key, client: key, limit, units: policy.cost });
    try {
      const { units } = counters.inspect(ask, nowMs, this.#view.table, 0);
      return { units, resetMs: ask.knownResetMs };
    } catch (error) {
      if (error instanceof BusyError) return null;
      throw error;
    }
  }
}

// Compares the keys of a table with what somebody searches for, without making a text for each: the beginning of an
// address, of the name of a listed token or of a hash, or a network.

interface SearchContext {
  /** The text of an address key, as it is shown. */
  readonly addressText: (words: {
    readonly a: number;
    readonly b: number;
    readonly c: number;
    readonly d: number;
  }) => string;
  /** The first words of the hashes whose name begins with a text, by slot. */
  readonly hashesNamed: (text: string) => ReadonlyMap<number, ReadonlySet<number>>;
}

type Matches = NonNullable<TopQuery["matches"]>;

/** Returns null for an empty text: all keys are listed. */
export function createKeySearch(text: string, context: SearchContext): Matches | null {
  if (text === "") return null;
  const cidr = text.includes("/") ? parseCidr(text) : undefined;
  const ofAddress = cidr === undefined ? startsAddress(text, context) : isIn(cidr.network, cidr.prefixBits);
  const ofHash = startsHash(text);
  const named = context.hashesNamed(text);
  return (w, line, slot) => {
    if (isAddressKey(w[line + keyLine.about] as number)) return ofAddress(w, line);
    return ofHash(w, line) || named.get(slot)?.has(w[line] as number) === true;
  };
}

type MatchesKey = (w: Int32Array, line: number) => boolean;

function isIn(network: Parameters<typeof addressKey>[0], prefixBits: number): MatchesKey {
  const { a, b, c, d } = addressKey(network, 128);
  const mask = (from: number): number => wordMask(prefixBits - from);
  const [maskA, maskB, maskC, maskD] = [mask(0), mask(32), mask(64), mask(96)];
  return (w, line) =>
    (((w[line] as number) ^ a) & maskA) === 0 &&
    (((w[line + 1] as number) ^ b) & maskB) === 0 &&
    (((w[line + 2] as number) ^ c) & maskC) === 0 &&
    (((w[line + 3] as number) ^ d) & maskD) === 0;
}

function startsAddress(text: string, { addressText }: SearchContext): MatchesKey {
  const isDotted = /^[0-9.]+$/.test(text);
  const mayBeIpv6 = /^[0-9a-f:/.]+$/.test(text);
  const prefix = Uint8Array.from(text, (character) => character.charCodeAt(0));
  const first = startsIpv6(text);
  return (w, line) => {
    if (w[line] === 0 && w[line + 1] === 0 && w[line + 2] === 0xffff)
      return isDotted && startsIpv4(w[line + 3] as number, prefix);
    if (!mayBeIpv6 || !first(w, line)) return false;
    const [a, b, c, d] = [w[line], w[line + 1], w[line + 2], w[line + 3]] as [number, number, number, number];
    return addressText({ a, b, c, d }).startsWith(text);
  };
}

const zero = 0x30;
const dot = 0x2e;

/** Whether the four octets of a word, in decimal, begin with these characters. */
function startsIpv4(word: number, prefix: Uint8Array): boolean {
  let at = 0;
  const is = (code: number): boolean => {
    at += 1;
    return prefix[at - 1] === code;
  };
  for (let shift = 24; shift >= 0 && at < prefix.length; shift -= 8) {
    const octet = (word >>> shift) & 0xff;
    if (octet >= 100 && !is(zero + Math.floor(octet / 100))) return false;
    if (octet >= 10 && at < prefix.length && !is(zero + (Math.floor(octet / 10) % 10))) return false;
    if (at < prefix.length && !is(zero + (octet % 10))) return false;
    if (at < prefix.length && (shift === 0 || !is(dot))) return false;
  }
  return true;
}

/** Compares the groups before the first `::` or an unfinished group, which most keys differ in. */
function startsIpv6(text: string): MatchesKey {
  const whole = text.split("::")[0] ?? "";
  const groups = whole.split(":").map((group) => Number.parseInt(group, 16));
  if (!text.includes("::")) groups.pop();
  if (groups.some(Number.isNaN)) return () => true;
  return (w, line) =>
    groups.every((group, i) => (((w[line + (i >> 1)] as number) >>> (i % 2 === 0 ? 16 : 0)) & 0xffff) === group);
}

/** Whether the digits of a hash begin with these. */
function startsHash(text: string): MatchesKey {
  if (!/^[0-9a-f]{1,32}$/i.test(text)) return () => false;
  const digits = text.padEnd(32, "0");
  const words = [0, 8, 16, 24].map((from) => Number.parseInt(digits.slice(from, from + 8), 16) | 0);
  const masks = words.map((_, i) => wordMask(4 * text.length - 32 * i));
  return (w, line) => words.every((word, i) => (((w[line + i] as number) ^ word) & (masks[i] as number)) === 0);
}
