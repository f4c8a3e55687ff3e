// A policy as the store knows it: by name, kind and key, so that gateways agree about it without a common number. It
// outlives reloads of the configuration.
import type { CounterKey } from "../../core/counter-key.ts";
import type { KeyPart, Policy } from "../../core/policy.ts";
import type { OwnCount } from "../counters.ts";
import type { ShardPeriods } from "./calendar-periods.ts";
import type { CounterRules, KeyCredits } from "./key-credits.ts";
import type { NewKeys } from "./new-keys.ts";

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

export class SharedPolicy {
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
