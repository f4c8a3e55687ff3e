// Lists the keys that have used most, most of their limit, or were used last, with their names. Takes at most a twentieth of the thread's time,
// however often it is asked: questions that come while the table is read wait for the next reading, which answers all of them.
import { setImmediate } from "node:timers/promises";
import type { Identity } from "../core/authentication.ts";
import type { MonotonicClock } from "../core/clock.ts";
import { addressKey, CounterKey, clientOfKey, hexOfKey, keyOfHex, wordMask } from "../core/counter-key.ts";
import { parseCidr } from "../core/ip-address.ts";
import { Ask } from "./counters.ts";
import type { LimiterView } from "./limiter-view.ts";
import { createKeyFinder, keysOfIdentities, type NameContext } from "./named-keys.ts";
import type { PolicyRow } from "./policies.ts";
import { isByAddress } from "./request-keys.ts";
import { BusyError, coarseNameOf, isAddressKey, keyLine, keyWordsAt, kinds } from "./table/layout.ts";
import { type SlotSpan, type TopKey, TopKeys, type TopQuery } from "./table/top-keys.ts";

export interface ListQuery {
  /** The name of a policy; null: all. */
  readonly policy: string | null;
  /** share: of their limit. */
  readonly sort: "used" | "share" | "recent";
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
  readonly #clock: MonotonicClock;
  readonly #waiting = new Map<string, WaitingQuery>();
  #isReading = false;
  #names: KeyNames | null = null;

  /** `source`: what is in force. */
  constructor(source: () => ListSource, clock: MonotonicClock) {
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
      const names = await this.#namesOf(this.#source(), watch);
      const top = watch.during(() => names.topKeys(asked, this.#clock.monotonicMs()));
      while (!watch.during(() => top.readPortion())) await setImmediate();
      for (const [i, keys] of top.lists().entries()) {
        const { query, answer } = asked[i] as WaitingQuery;
        answer.resolve(await this.#named(names, query, keys, watch));
      }
    } catch (error) {
      for (const { answer } of asked) answer.reject(error);
    }
    return watch.busyMs;
  }

  async #named(names: KeyNames, { sort }: ListQuery, keys: readonly TopKey[], watch: BusyTime): Promise<ListedKey[]> {
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
    if (sort === "recent") return all;
    const worth = (key: ListedKey): number => (sort === "used" ? key.used : key.used / names.sortedLimitOf(key));
    return all.sort((a, b) => worth(b) - worth(a));
  }

  /** Made again when the list of tokens, the limiter or the hash of keys is another one. */
  async #namesOf({ view, context }: ListSource, watch: BusyTime): Promise<KeyNames> {
    const probe = probeOf(view, context);
    if (this.#names?.isOf(view, context, probe) !== true) {
      this.#names = await KeyNames.create(view, context, probe, watch);
    }
    return this.#names;
  }
}

/** How long something kept the thread. */
class BusyTime {
  busyMs = 0;
  readonly #clock: MonotonicClock;

  constructor(clock: MonotonicClock) {
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

function spansOf(rows: readonly PolicyRow[], nowMs: number): (SlotSpan | undefined)[] {
  const spans: (SlotSpan | undefined)[] = [];
  for (const { slot, policy, isShadow, local } of rows) {
    spans[slot] = {
      ...local.readingAt(nowMs),
      limit: sortedLimit(policy.limit, isShadow),
      hasInstants: policy.rate.kind === "sliding",
    };
  }
  return spans;
}

/** Shadows come last, because they refuse nothing. */
function sortedLimit(limit: number, isShadow: boolean): number {
  return isShadow ? limit * 1e9 : limit;
}

/** The hash of a subject that nobody has: another one if the keys are hashed by another secret. */
function probeOf({ rows }: LimiterView, context: NameContext): string {
  const row = rows.find(({ policy }) => !isByAddress(policy));
  const keys = row === undefined ? [] : (createKeyFinder({ kind: "client", value: "::" }, context)?.(row).keys ?? []);
  return keys.map(({ key }) => hexOfKey(key)).join();
}

type KeyName = Pick<ListedKey, "name" | "id" | "limit" | "method" | "route">;

interface NamedHash extends Pick<ListedKey, "name" | "limit" | "method" | "route"> {
  readonly firstWord: number;
}

/** The names of the keys of a table. */
class KeyNames {
  readonly #view: LimiterView;
  readonly #context: NameContext;
  readonly #probe: string;
  readonly #rows: ReadonlyMap<number, PolicyRow>;
  /** Of the keys of listed tokens, by slot and by their digits. */
  readonly #named: ReadonlyMap<number, Map<string, NamedHash>>;

  private constructor(view: LimiterView, context: NameContext, probe: string) {
    this.#view = view;
    this.#context = context;
    this.#probe = probe;
    this.#rows = new Map(view.rows.map((row) => [row.slot, row]));
    this.#named = new Map(view.rows.map(({ slot }) => [slot, new Map()]));
  }

  /** Hashes the keys of all listed tokens, in portions. */
  static async create(view: LimiterView, context: NameContext, probe: string, watch: BusyTime): Promise<KeyNames> {
    const names = new KeyNames(view, context, probe);
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
        const named = { name, firstWord: key.a, limit: limit || row.policy.limit, method, route };
        this.#named.get(row.slot)?.set(hexOfKey(key), named);
      }
    }
  }

  isOf(view: LimiterView, { listed }: NameContext, probe: string): boolean {
    return this.#view === view && this.#context.listed === listed && this.#probe === probe;
  }

  /** The reading that answers several queries. */
  topKeys(asked: readonly WaitingQuery[], nowMs: number): TopKeys {
    const { rows, table } = this.#view;
    const queries = asked.map(({ query: { policy, sort, search, limit } }) => ({
      // No policy has such a slot.
      slot: policy === null ? null : (rows.find((row) => row.policy.name === policy)?.slot ?? -1),
      ...{ sort, limit },
      matches: search === "" ? null : createKeySearch(search, this.#context.ipv6Prefix, this.#hashesNamed(search)),
    }));
    return new TopKeys(table.memory, queries, spansOf(rows, nowMs));
  }

  sortedLimitOf({ policy: name, limit }: ListedKey): number {
    return sortedLimit(limit, this.#view.rows.find(({ policy }) => policy.name === name)?.isShadow ?? false);
  }

  /** The first words of the hashes whose name begins with a text, by slot. */
  #hashesNamed(text: string): HashesBySlot {
    const words = (named: ReadonlyMap<string, NamedHash>): Set<number> =>
      new Set([...named.values()].flatMap(({ name, firstWord }) => (name.startsWith(text) ? [firstWord] : [])));
    return new Map([...this.#named].map(([slot, named]) => [slot, words(named)]));
  }

  /** Null if its policy is gone. */
  listed({ slot, kind, words: [a, b, c, d], units, ageMs }: TopKey, nowMs: number): ListedKey | null {
    const row = this.#rows.get(slot);
    if (row === undefined) return null;
    const isOwn = kind === kinds.own;
    const key = new CounterKey(a, b, c, d, !isOwn || isByAddress(row.policy));
    const named = this.#nameOf(row, key, kind);
    const state = isOwn ? this.#stateOf(row, key, named.limit, nowMs) : null;
    const used = state?.units ?? units;
    return {
      ...{ policy: row.policy.name, ...named, used },
      coarse: coarseNameOf(kind),
      remaining: Math.max(0, named.limit - used),
      resetMs: state?.resetMs ?? null,
      lastMs: ageMs === null ? null : nowMs - ageMs,
    };
  }

  #nameOf(row: PolicyRow, key: CounterKey, kind: number): KeyName {
    const unnamed = { limit: row.policy.limit, method: null, route: null };
    if (kind === kinds.network) return { ...unnamed, id: null, name: networkText(key) };
    if (key.isAddress) {
      const name = clientOfKey(key, this.#context.ipv6Prefix);
      const limit = kind === kinds.own ? this.#limitOf(row, name) : row.policy.limit;
      return { ...unnamed, id: `client:${name}`, name, limit };
    }
    const hex = hexOfKey(key);
    const token = this.#named.get(row.slot)?.get(hex);
    if (token === undefined) return { ...unnamed, id: `key:${hex}`, name: hex.slice(0, shownDigits) };
    const { name, limit, method, route } = token;
    return { name, limit, method, route, id: `token:${name}` };
  }

  #limitOf(row: PolicyRow, client: string): number {
    if (row.readLimit === null && row.runtimeRules.isEmpty) return row.policy.limit;
    const found = createKeyFinder({ kind: "client", value: client }, this.#context)?.(row).keys[0];
    // It was charged before it was exempt.
    return found?.limit || row.policy.limit;
  }

  /** Null if another thread is at work there, or nothing counts any more. */
  #stateOf(row: PolicyRow, key: CounterKey, limit: number, nowMs: number) {
    const { local, policy } = row;
    const ask = Object.assign(new Ask(), { key, client: key, limit, units: policy.cost });
    try {
      const { units } = local.inspect(ask, nowMs, this.#view.table, 0);
      return { units, resetMs: ask.knownResetMs };
    } catch (error) {
      if (error instanceof BusyError) return null;
      throw error;
    }
  }
}

function networkText(key: CounterKey): string {
  const isIpv4 = key.a === 0 && key.b === 0 && key.c === 0xffff;
  return isIpv4 ? `${clientOfKey(key, 128)}/24` : clientOfKey(key, 48);
}

// Compares the keys of a table with what somebody searches for, without making a text for most of them: the beginning of an
// address, of the name of a listed token or of a hash, or a network.

type HashesBySlot = ReadonlyMap<number, ReadonlySet<number>>;
type MatchesKey = (w: Int32Array, line: number) => boolean;

/** `named`: the first words of the hashes whose name begins with the text. */
export function createKeySearch(
  text: string,
  ipv6Prefix: number,
  named: HashesBySlot,
): NonNullable<TopQuery["matches"]> {
  const cidr = text.includes("/") ? parseCidr(text) : undefined;
  const ofAddress =
    cidr === undefined ? startsAddress(text, ipv6Prefix) : startsBits(addressKey(cidr.network, 128), cidr.prefixBits);
  const ofHash = startsHash(text);
  return (w, line, slot) => {
    if (isAddressKey(w[line + keyLine.about] as number)) return ofAddress(w, line);
    return ofHash(w, line) || named.get(slot)?.has(w[line] as number) === true;
  };
}

/** Whether a key begins with the first bits of another one. */
function startsBits({ a, b, c, d }: CounterKey, bits: number): MatchesKey {
  const words = [a, b, c, d];
  const masks = words.map((_, i) => wordMask(bits - 32 * i));
  return (w, line) => words.every((word, i) => (((w[line + i] as number) ^ word) & (masks[i] as number)) === 0);
}

/** Whether the digits of a hash begin with these. */
function startsHash(text: string): MatchesKey {
  const key = keyOfHex(text.padEnd(32, "0"));
  return key === null || text === "" ? () => false : startsBits(key, 4 * text.length);
}

function startsAddress(text: string, ipv6Prefix: number): MatchesKey {
  const ofIpv4 = startsIpv4(text);
  const ofIpv6 = startsIpv6(text);
  const mayBeIpv6 = /^[0-9a-f:/.]+$/.test(text);
  return (w, line) => {
    const [a, b, c, d] = keyWordsAt(w, line);
    if (a === 0 && b === 0 && c === 0xffff) return ofIpv4(w, line);
    return mayBeIpv6 && ofIpv6(w, line) && clientOfKey({ a, b, c, d }, ipv6Prefix).startsWith(text);
  };
}

const octets = Array.from({ length: 256 }, (_, octet) => `${octet}`);

/** Whether the four octets of an IPv4 address begin with a text; the last one that it names may be unfinished. */
function startsIpv4(text: string): MatchesKey {
  const begun = text.split(".");
  const unfinished = begun.pop() ?? "";
  const fitting = [
    ...begun.map((whole) => octets.map((octet) => octet === whole)),
    octets.map((octet) => octet.startsWith(unfinished)),
  ];
  if (fitting.length > 4) return () => false;
  return (w, line) => fitting.every((fits, i) => fits[((w[line + 3] as number) >>> (24 - 8 * i)) & 0xff] === true);
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
