// Makes the items that a thread asks the store with.
import type { SharedStoreSettings } from "../../core/store-link.ts";
import type { OwnCount } from "../counters.ts";
import type { KeyCredits, Lease, StorePolicy } from "./credits.ts";
import type { Renewal } from "./reports.ts";
import {
  type CounterItem,
  counterStoreKey,
  type ForgetItem,
  type GatewaysItem,
  heldMark,
  isLeasedByRequest,
  type LeaseReport,
  leaseIdOf,
  markKeyOf,
  storeKeyOf,
  type Told,
} from "./script-call.ts";
import { certainAgeUs } from "./store-clock.ts";

/** The tag of the secret that hashes keys. */
export const secretTag = "secret";
/**
 * A mark stays for this much longer than what was admitted before it was forgiven counts: for as long as that counts, within
 * these bounds. A call may be that late, and a gateway that reads of it late has the store forget it no more.
 */
const [leastMarkMs, mostMarkMs] = [120_000, 3_600_000];

export class StoreItems {
  readonly #settings: Pick<SharedStoreSettings, "prefix" | "lease">;
  readonly #gateway: string;
  readonly #thread: string;
  /** The place in the log up to which this thread has forgotten what was forgiven. */
  forgivenUntil = 0;
  #lastId = 0;

  constructor(settings: Pick<SharedStoreSettings, "prefix" | "lease">, gateway: string, thread: string) {
    this.#settings = settings;
    this.#gateway = gateway;
    this.#thread = thread;
  }

  /** `own`: what the store has to be told; null if nothing. */
  asking(
    credits: KeyCredits,
    asked: number,
    reports: readonly LeaseReport[],
    own: OwnCount | null,
    nowMs: number,
  ): CounterItem {
    const { isAhead, step } = credits.rules;
    const wanted = isAhead ? Math.max(0, credits.wantedAhead(nowMs) - credits.held(nowMs)) : 0;
    const ahead = Math.min(wanted, Math.max(0, this.#settings.lease.most - asked * step));
    return this.#item(credits, asked, ahead, reports, this.#toldOf(own, credits));
  }

  /** Asks for nothing. */
  telling(credits: KeyCredits, reports: readonly LeaseReport[], own: OwnCount): CounterItem {
    return this.#item(credits, 0, 0, reports, this.#toldOf(own, credits));
  }

  reporting({ credits, reports }: Renewal): CounterItem {
    return this.#item(credits, 0, 0, reports, null);
  }

  listing(tag: string, silenceMs: number, ageMs: number): GatewaysItem {
    const [silenceUs, ageUs] = [silenceMs * 1000, ageMs * 1000];
    return {
      item: "gateways",
      key: storeKeyOf(this.#settings.prefix, tag, "gateways"),
      gateway: this.#gateway,
      silenceUs,
      ageUs,
    };
  }

  /** `untilUs`: the end of a calendar's period, else 0. */
  forgetting({ text, longestCountMs }: StorePolicy, tag: string, untilUs: number, seq: number): ForgetItem {
    const { prefix } = this.#settings;
    return {
      item: "forget",
      key: counterStoreKey(prefix, tag, text, untilUs),
      markKey: markKeyOf(prefix, tag, text),
      seq,
      keepMs: longestCountMs + Math.min(mostMarkMs, Math.max(leastMarkMs, longestCountMs)),
    };
  }

  /** The store has what is not spent too, unless it is held: it must not be taken for what was admitted. */
  #toldOf(own: OwnCount | null, credits: KeyCredits): Told | null {
    if (own === null || !isOfPeriod(own, credits)) return null;
    return {
      units: own.units + (credits.rules.isByRequest ? 0 : credits.unspent),
      ageUs: certainAgeUs(own.ageMs),
      forgivenUntil: this.forgivenUntil,
      markKey: markKeyOf(this.#settings.prefix, credits.tag, credits.policy.text),
    };
  }

  /** In one literal, because one is made for each request. */
  #item(
    { storeKey, rules }: KeyCredits,
    asked: number,
    ahead: number,
    reports: readonly LeaseReport[],
    told: Told | null,
  ): CounterItem {
    this.#lastId += 1;
    const isHeld = rules.isByRequest && rules.item !== "concurrency";
    return {
      item: rules.item,
      key: storeKey,
      limit: rules.limit,
      windowUs: rules.windowUs,
      untilUs: rules.untilUs,
      keepUs: rules.keepUs,
      leaseUs: rules.leaseUs,
      step: rules.step,
      asked,
      ahead,
      id: this.#gateway + this.#thread + this.#lastId.toString(36) + (isHeld ? heldMark : ""),
      reports,
      told,
    };
  }
}

/** Whether what this gateway counts is of the same period: in a cluster, shards begin it at different times. */
export function isOfPeriod({ periodEndMs }: OwnCount, { rules }: KeyCredits): boolean {
  return periodEndMs * 1000 === rules.untilUs;
}

/** Returns the leases that an item is granted: one for each request whose units may be given back alone, or one for all. */
export function leasesOf(
  { item, id, step }: CounterItem,
  requests: number,
  units: number,
): readonly Pick<Lease, "id" | "granted">[] {
  if (!isLeasedByRequest({ item, id })) return units === 0 ? [] : [{ id, granted: units }];
  return Array.from({ length: requests }, (_, place) => ({ id: leaseIdOf(id, place), granted: step }));
}

/**
 * Returns reports that give back all that an item without an answer may have been granted. If it was granted less, nobody knows
 * how much: then they are about nothing, and change nothing.
 */
export function unspentOf(item: CounterItem, spentMs: number) {
  const leases = leasesOf(item, item.asked, item.asked * item.step + item.ahead);
  return leases.map(({ id, granted }) => ({ id, granted, spent: 0, spentMs }));
}
