// A policy as the store knows it: by name, kind and key, so that gateways agree about it without a common number. It
// outlives reloads of the configuration.

import type { Clock } from "../../core/clock.ts";
import type { CounterKey } from "../../core/counter-key.ts";
import type { KeyPart, Policy, Rate } from "../../core/policy.ts";
import {
  type ClockReading,
  createCalendar,
  latestWallMs,
  type NextBorder,
  noPeriod,
  type PeriodEnd,
  periodEndAt,
  untilEndMs,
  untilResetMs,
} from "../calendar.ts";
import type { OwnCount } from "../counters.ts";
import type { CalendarPeriod } from "../table/counter-table.ts";
import { type CounterRules, KeyCredits, NewKeys } from "./credits.ts";
import type { StoreItems } from "./items.ts";

/** What the policy in force says. */
export interface PolicySource {
  /** Of its slot in the table. */
  readonly slot: number;
  /** Of keys without an override. */
  readonly limit: number;
  /** As they are for a key with this tag now. */
  rules(tag: string, nowMs: number): CounterRules;
  /** A shard has said that a calendar's period is over, that was to end then. */
  periodOver(shard: number, endMs: number, nowMs: number): void;
  /** What this gateway has admitted of a key and still counts; null if nothing, or if slots are counted. */
  own(key: CounterKey, client: CounterKey, nowMs: number): OwnCount | null;
}

export class StorePolicy {
  /** What gateways call it. */
  readonly text: string;
  /** Of keys that this thread knows something about, by tag; of a limit that is not the policy's, by tag and limit. */
  readonly credits = new Map<string, KeyCredits>();
  readonly newKeys: NewKeys;
  /** Networks that are counted as one, by tag, and until when: too many new keys were made. */
  readonly networks = new Map<string, number>();
  /** Of a calendar. */
  readonly periods: ShardPeriods = new Map();
  #source: PolicySource;

  constructor(text: string, source: PolicySource, newKeys: NewKeys) {
    this.text = text;
    this.#source = source;
    this.newKeys = newKeys;
  }

  get slot(): number {
    return this.#source.slot;
  }

  /** A policy has come into force that continues this one. */
  continue(source: PolicySource): void {
    this.#source = source;
  }

  /** Counts a network as one. Of too many, the oldest is forgotten. */
  addNetwork(tag: string, untilMs: number): void {
    if (this.networks.size >= mostNetworks) {
      const [oldest] = this.networks.keys();
      if (oldest !== undefined) this.networks.delete(oldest);
    }
    this.networks.set(tag, untilMs);
  }

  /** Returns what is known of a key in the period of the rules; undefined if nothing is. */
  find(tag: string, { limit, untilUs }: CounterRules): KeyCredits | undefined {
    const credits = this.credits.get(this.placeOf(tag, limit));
    return credits?.rules.untilUs === untilUs ? credits : undefined;
  }

  /**
   * Returns where a key is among the credits. What is held and refused by one limit says nothing about another one, which
   * a client may have by an override that is not of the key.
   */
  placeOf(tag: string, limit: number): string {
    return limit === this.#source.limit ? tag : `${tag}/${limit}`;
  }

  rules(tag: string, nowMs: number): CounterRules {
    return this.#source.rules(tag, nowMs);
  }

  periodOver(shard: number, endMs: number, nowMs: number): void {
    this.#source.periodOver(shard, endMs, nowMs);
  }

  own(key: CounterKey, client: CounterKey, nowMs: number): OwnCount | null {
    return this.#source.own(key, client, nowMs);
  }
}

const mostNetworks = 65_536;

const letters = { sliding: "s", calendar: "c", concurrency: "n" } as const;

/** Returns what gateways call a policy. */
export function policyText({ name, rate, key }: Pick<Policy, "name" | "rate" | "key">): string {
  return `${letters[rate.kind]}/${name}/${key.map(partText).join("+")}`;
}

function partText(part: KeyPart): string {
  return part.kind === "header" || part.kind === "claim" ? `${part.kind}:${part.name}` : part.kind;
}

// What one thread holds of all counters of the store, by policy and key. What is forgotten is returned to the store.

/** Keys of a policy about which something is remembered. */
const mostCredits = 65_536;
/** Keys that are looked at for one that can be forgotten. */
const mostLooks = 8;

export class CreditBook {
  readonly #clock: Clock;
  readonly #items: StoreItems;
  readonly #maxKeys: number;
  readonly #ended: (credits: KeyCredits) => void;
  readonly #policies = new Map<string, StorePolicy>();

  /** `maxKeys`: of each policy. `ended`: everything that is held of a key has to be returned. */
  constructor(clock: Clock, items: StoreItems, maxKeys: number, ended: (credits: KeyCredits) => void) {
    this.#clock = clock;
    this.#items = items;
    this.#maxKeys = maxKeys;
    this.#ended = ended;
  }

  get policies(): Iterable<StorePolicy> {
    return this.#policies.values();
  }

  /** Returns the policy with this text; with `source`, if it is new. `windowMs`: how long its requests count. */
  policy(text: string, source: PolicySource, windowMs: number): StorePolicy {
    const known = this.#policies.get(text);
    if (known !== undefined) return known;
    const policy = new StorePolicy(text, source, new NewKeys(this.#maxKeys, windowMs));
    this.#policies.set(text, policy);
    return policy;
  }

  /** The policy is gone, and so is what is held for it. */
  retire(policy: StorePolicy): void {
    this.#policies.delete(policy.text);
    for (const credits of policy.credits.values()) this.#ended(credits);
    policy.credits.clear();
  }

  /** Begins to remember a key. */
  create(policy: StorePolicy, tag: string, key: CounterKey, client: CounterKey, rules: CounterRules): KeyCredits {
    if (policy.credits.size >= mostCredits) this.#forgetOne(policy);
    const period = rules.untilUs === 0 ? "" : `/${rules.untilUs / 1e6}`;
    const storeKey = this.#items.key(tag, `${policy.text}${period}`);
    const credits = new KeyCredits({ policy, tag, storeKey, key, client, rules });
    policy.credits.set(policy.placeOf(tag, rules.limit), credits);
    return credits;
  }

  *all(): Generator<KeyCredits> {
    for (const { credits } of this.#policies.values()) yield* credits.values();
  }

  /** Makes room for another key: one about which nothing has to be remembered, or else the oldest. */
  #forgetOne({ credits: all }: StorePolicy): void {
    const nowMs = this.#clock.monotonicMs();
    let looked = 0;
    for (const [place, credits] of all) {
      looked += 1;
      all.delete(place);
      if (looked === mostLooks || credits.isIdle(nowMs)) {
        this.#ended(credits);
        return;
      }
      // The next search begins behind it.
      all.set(place, credits);
    }
  }
}

// The periods of a calendar policy by the clocks of the shards: one that is set forward must not begin a period for the
// keys of the others. No period begins again: see ../calendar.ts. A thread that does not know a shard yet begins with
// the period of the table, which other threads or a process before this one may have begun.

/** By shard, with the calendar that they are of. Outlives reloads. */
export type ShardPeriods = Map<number, { readonly calendar: string; readonly end: PeriodEnd }>;

interface CalendarPeriodsOf {
  readonly rate: Extract<Rate, { readonly kind: "calendar" }>;
  readonly longestMs: number;
  readonly byShard: ShardPeriods;
  readonly ofTable: PeriodEnd & Partial<Pick<CalendarPeriod, "isGuess">>;
  /** The clock of other shards, or that of this machine. */
  readonly wallMs: () => number;
}

export class CalendarPeriods {
  readonly #calendar: string;
  readonly #nextBorder: NextBorder;
  readonly #parts: CalendarPeriodsOf;

  /** Throws a RangeError if the runtime does not know the time zone. */
  constructor(parts: CalendarPeriodsOf) {
    const { per, timezone } = parts.rate;
    this.#calendar = `${per} ${timezone}`;
    this.#nextBorder = createCalendar(per, timezone);
    this.#parts = parts;
  }

  /** Returns when the period ends that a shard is in. `shardMs`: its clock; null if that is not known. */
  endMs(shard: number, shardMs: number | null, nowMs: number): number {
    return this.#at(shard, shardMs, nowMs).end.endMs;
  }

  /** Returns how long that period still lasts. */
  untilResetMs(shard: number, shardMs: number | null, nowMs: number): number {
    const { end, wallMs } = this.#at(shard, shardMs, nowMs);
    return untilResetMs(end, wallMs, nowMs);
  }

  #at(shard: number, shardMs: number | null, nowMs: number): { readonly end: PeriodEnd; readonly wallMs: number } {
    const before = this.#parts.byShard.get(shard)?.end;
    // Of a server that has not answered yet, the clock is supposed to be that of the one before.
    const wallMs = shardMs ?? (before === undefined ? this.#parts.wallMs() : before.endMs - (before.dueMs - nowMs));
    const end = this.#endOf(shard, wallMs, nowMs);
    // By another clock, the shard would be in a period of its own from now on.
    if (shardMs === null && before === undefined) this.#parts.byShard.delete(shard);
    return { end, wallMs };
  }

  /** A shard has said that the period which ends then is over. */
  over(shard: number, endMs: number, nowMs: number): void {
    const known = this.#parts.byShard.get(shard);
    if (known?.calendar !== this.#calendar || known.end.endMs !== endMs) return;
    this.#begin(shard, known.end, { wallMs: endMs, nowMs });
  }

  #endOf(shard: number, wallMs: number, nowMs: number): PeriodEnd {
    const { byShard, ofTable, longestMs } = this.#parts;
    const known = byShard.get(shard);
    const before = known?.end ?? (ofTable.isGuess === true ? noPeriod : ofTable);
    const isOfCalendar = known === undefined ? before.dueMs - nowMs <= longestMs : known.calendar === this.#calendar;
    if (!isOfCalendar || untilEndMs(before, wallMs, nowMs) <= 0) return this.#begin(shard, before, { wallMs, nowMs });
    return known === undefined ? this.#set(shard, before) : before;
  }

  #begin(shard: number, before: PeriodEnd, reading: ClockReading): PeriodEnd {
    const latestMs = latestWallMs(before, reading);
    return this.#set(shard, periodEndAt(this.#nextBorder, this.#parts.longestMs, latestMs, reading));
  }

  /** That of the table changes, so it is copied. */
  #set(shard: number, { endMs, dueMs, lastMs }: PeriodEnd): PeriodEnd {
    const end = { endMs, dueMs, lastMs };
    this.#parts.byShard.set(shard, { calendar: this.#calendar, end });
    return end;
  }
}
