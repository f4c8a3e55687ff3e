// Makes the items that a thread asks the store with.
import type { OwnCount } from "../counters.ts";
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
  readonly #prefix: string;
  readonly #gateway: string;
  readonly #thread: string;
  /** The place in the log up to which this thread has forgotten what was forgiven. */
  forgivenUntil = 0;
  #lastId = 0;

  constructor({ prefix }: { readonly prefix: string }, gateway: string, thread: string) {
    this.#prefix = prefix;
    this.#gateway = gateway;
    this.#thread = thread;
  }

  /**
   * Makes the item of a key. `asked` and `ahead`: as in `CounterItem`. `own`: what this gateway has admitted and the store
   * has to be told; null if nothing.
   */
  counter(
    key: SharedKey,
    asked: number,
    ahead: number,
    reports: readonly LeaseReport[],
    own: OwnCount | null,
  ): CounterItem {
    const { storeKey, rules } = key;
    this.#lastId += 1;
    const isHeld = rules.isByRequest && rules.item !== "concurrency";
    // In one literal, because one is made for each request.
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
      told: own === null ? null : this.#toldOf(own, key),
    };
  }

  /** Makes the item that lists this gateway. `ageMs`: more than 0 if it leaves. */
  listing(tag: string, silenceMs: number, ageMs: number): GatewaysItem {
    const key = storeKeyOf(this.#prefix, tag, "gateways");
    return { item: "gateways", key, gateway: this.#gateway, silenceUs: silenceMs * 1000, ageUs: ageMs * 1000 };
  }

  /** Makes the item that empties a counter. `untilUs`: the end of a calendar's period, else 0. `seq`: see `ForgetItem`. */
  forgetting({ text, longestCountMs }: StorePolicy, tag: string, untilUs: number, seq: number): ForgetItem {
    return {
      item: "forget",
      key: counterStoreKey(this.#prefix, tag, text, untilUs),
      markKey: markKeyOf(this.#prefix, tag, text),
      seq,
      keepMs: longestCountMs + Math.min(mostMarkMs, Math.max(leastMarkMs, longestCountMs)),
    };
  }

  /** Adds units that are leased and not spent: the store counts them too, and would take them for units that it is told. */
  #toldOf(own: OwnCount, key: SharedKey): Told | null {
    if (!isOfPeriod(own, key)) return null;
    return {
      units: own.units + (key.rules.isByRequest ? 0 : key.held.unspent),
      ageUs: certainAgeUs(own.ageMs),
      forgivenUntil: this.forgivenUntil,
      markKey: markKeyOf(this.#prefix, key.tag, key.policy.text),
    };
  }
}

/** Whether what this gateway counts is of the same period: in a cluster, shards begin it at different times. */
export function isOfPeriod({ periodEndMs }: OwnCount, { rules }: SharedKey): boolean {
  return periodEndMs * 1000 === rules.untilUs;
}
