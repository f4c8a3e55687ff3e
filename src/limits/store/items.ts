// Makes the items that a thread asks the store with.
import type { SharedStoreSettings } from "../../core/store-link.ts";
import type { OwnCount } from "../counters.ts";
import type { Renewal } from "./reports.ts";
import {
  type CounterItem,
  counterStoreKey,
  type ForgetItem,
  type GatewaysItem,
  heldMark,
  type LeaseReport,
  markKeyOf,
  storeKeyOf,
  type Told,
} from "./script-call.ts";
import type { SharedKey, StorePolicy } from "./shared-key.ts";
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

  /**
   * `asked`: requests that want a step of this key alone; `wanted`: units that requests want. `own`: what the store has to be
   * told; null if nothing.
   */
  asking(
    key: SharedKey,
    { asked, wanted }: { readonly asked: number; readonly wanted: number },
    reports: readonly LeaseReport[],
    own: OwnCount | null,
    nowMs: number,
  ): CounterItem {
    const { ahead, rules, held } = key;
    const missing = ahead === null ? 0 : ahead.wanted(rules, nowMs) - held.free(nowMs);
    const most = Math.max(0, this.#settings.lease.most - wanted);
    return this.#item(key, asked, Math.max(0, Math.min(missing, most)), reports, this.#toldOf(own, key));
  }

  /** Asks for nothing. */
  telling(key: SharedKey, reports: readonly LeaseReport[], own: OwnCount): CounterItem {
    return this.#item(key, 0, 0, reports, this.#toldOf(own, key));
  }

  reporting({ key, reports }: Renewal): CounterItem {
    return this.#item(key, 0, 0, reports, null);
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
  #toldOf(own: OwnCount | null, key: SharedKey): Told | null {
    if (own === null || !isOfPeriod(own, key)) return null;
    return {
      units: own.units + (key.rules.isByRequest ? 0 : key.held.unspent),
      ageUs: certainAgeUs(own.ageMs),
      forgivenUntil: this.forgivenUntil,
      markKey: markKeyOf(this.#settings.prefix, key.tag, key.policy.text),
    };
  }

  /** In one literal, because one is made for each request. */
  #item(
    { storeKey, rules }: SharedKey,
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
export function isOfPeriod({ periodEndMs }: OwnCount, { rules }: SharedKey): boolean {
  return periodEndMs * 1000 === rules.untilUs;
}
