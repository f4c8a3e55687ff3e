// What a call of the store's script asks and answers. A call has items, most of them counters, and requests that ask for
// units of several of its counters: each is granted all of them or none. All instants of a call are of the store's clock;
// what the gateway says of time are ages.

import { hexOfKey, type KeyWords } from "../../core/counter-key.ts";
import { heldRetryMs } from "../counters.ts";

/** Another number in the keys: gateways whose scripts differ count apart, and do not misread each other. */
const scriptVersion = 1;

/**
 * What is asked of one counter; a call has at most one item of a key. `sliding`: a unit counts for a window after it was spent.
 * `calendar`: it counts until the end of a period. `concurrency`: it counts until it is given back, or for `leaseUs` after it
 * was renewed last.
 */
export interface CounterItem {
  readonly item: "sliding" | "calendar" | "concurrency";
  /** The whole key, with its tag in braces. */
  readonly key: string;
  readonly limit: number;
  /** Sliding: the window. Others: 0. */
  readonly windowUs: number;
  /**
   * Calendar: the end of the period, in microseconds since 1970, and how long the key stays after it. Others: 0. The beginning
   * is not asked for: a clock that is set back to before it must not end the period.
   */
  readonly untilUs: number;
  readonly keepUs: number;
  readonly leaseUs: number;
  /** The cost of a request; units are granted ahead in multiples of it. */
  readonly step: number;
  /** How many requests of one step each ask for this counter alone. They are judged before those of several counters. */
  readonly asked: number;
  /**
   * Units that are wanted ahead of need, beside those of requests. They are granted after all requests were judged, and
   * with the others at most a quarter of what was free. 0 of a counter that is leased by request.
   */
  readonly ahead: number;
  /**
   * Of the leases that the call makes, never used for another call: the gateway's id, the thread's, and a number. With
   * `heldMark` at its end, the units are held until they are reported, and a refusal beside them may end soon. Then, and of
   * `concurrency`, each request has a lease of its own. Else all units that a call is granted of a counter are one lease.
   */
  readonly id: string;
  /** What became of units that were granted before. Done before anything is granted; may be repeated. */
  readonly reports: readonly LeaseReport[];
  /** What this gateway has admitted and what still counts; null: nothing has to be told. Done after the reports. */
  readonly told: Told | null;
}

/**
 * Returns the id of a request's own lease, of a counter that is leased by request. `id`: of the counter's item. `place`: of the
 * requests that ask for this counter alone, 0 for the first one that is granted, and so on; of the n-th request of several
 * counters, `asked` + n.
 */
export function leaseIdOf(id: string, place: number): string {
  if (place === 0) return id;
  return id.endsWith(heldMark) ? `${id.slice(0, -heldMark.length)}.${place}${heldMark}` : `${id}.${place}`;
}

/** Requests that need the same of several counters of their call, each of them once. As many are granted as fit: the first ones. */
export interface EqualRequests {
  readonly count: number;
  readonly needs: readonly Need[];
}

interface Need {
  /** The place of the counter among the items of the call, from 0. */
  readonly item: number;
  readonly units: number;
}

/** `spent` of the `granted` units of a lease were spent, the last of them `ageUs` before the call was sent. */
export interface LeaseReport {
  readonly id: string;
  readonly granted: number;
  /** Concurrency: all of them is a renewal. */
  readonly spent: number;
  readonly ageUs: number;
}

/** At least so many units of this gateway count, the newest spent `ageUs` before the call was sent. */
export interface Told {
  readonly units: number;
  readonly ageUs: number;
  /** The place in the log up to which this thread has forgotten what was forgiven. */
  readonly forgivenUntil: number;
  /** The mark of the counter: it is the place of its last forgiveness, and what is told without that one is void. */
  readonly markKey: string;
}

/** Somebody's counts are forgiven: the counter is emptied, unless that was done already. Never one of `concurrency`. */
export interface ForgetItem {
  readonly item: "forget";
  readonly key: string;
  readonly markKey: string;
  /** The place of the forgiveness in the log. */
  readonly seq: number;
  /** How long the mark stays: nobody tells later what was admitted before the forgiveness. */
  readonly keepMs: number;
}

/** The list of the gateways that share the store, which shows too whether the store has forgotten. */
export interface GatewaysItem {
  readonly item: "gateways";
  readonly key: string;
  /** `gatewayLength` characters. */
  readonly gateway: string;
  /** A gateway that is silent for longer is gone. */
  readonly silenceUs: number;
  /** How long ago the gateway was there last: more than 0 if it leaves, so that it is soon not counted. */
  readonly ageUs: number;
}

/** A value that the first gateway sets and all use. */
interface SecretItem {
  readonly item: "secret";
  readonly key: string;
  /** Set if there is none. Hexadecimal. */
  readonly proposed: string;
}

export type Item = CounterItem | ForgetItem | GatewaysItem | SecretItem;

export interface CounterAnswer {
  readonly item: "counter";
  /** Calendar: false if the period is over by the store's clock; then nothing else was done. */
  readonly isInPeriod: boolean;
  /** Something else is under the key; then nothing was done. */
  readonly isForeign: boolean;
  /** What was told was not counted, because the counter was forgiven and this thread does not know it. */
  readonly isVoid: boolean;
  /**
   * Units that the call was granted: of the requests that ask for this counter alone, of those of several counters, and
   * ahead. A call that is made twice is granted the same again, as far as it is judged alike, and nothing counts twice.
   */
  readonly granted: number;
  /** How many of the requests were granted that ask for this counter alone: the first ones. */
  readonly askedGranted: number;
  /** Units that were granted ahead of need. */
  readonly ahead: number;
  /** What is left of the limit after it. */
  readonly free: number;
  /** After this time by the store's clock as it runs, something that counts now no longer does; -1 if nothing counts. */
  readonly resetUs: number;
  /**
   * After this time, `step` units are free, if nobody else takes them; 0: they are now; -1: never, by this limit. At most
   * `heldRetryUs` if units that are held could make room.
   */
  readonly fitsUs: number;
  /** If no step is free: how long ago the newest units were granted that another thread may return; -1: there are none. */
  readonly leasedUs: number;
  /** Whether the counter was not in the store before. */
  readonly isNew: boolean;
}

export interface GatewaysAnswer {
  readonly item: "gateways";
  /** Another text if the store has lost the list since, with all that it had. */
  readonly origin: string;
  readonly gateways: number;
}

interface SecretAnswer {
  readonly item: "secret";
  readonly value: string;
}

interface ForgetAnswer {
  readonly item: "forget";
}

export type ItemAnswer = CounterAnswer | ForgetAnswer | GatewaysAnswer | SecretAnswer;

export interface ScriptAnswer {
  /** The store's clock, as it is, at the call. */
  readonly timeUs: number;
  /** In the order of the items. */
  readonly items: readonly ItemAnswer[];
  /** How many of equal requests were granted, in the order in which they were asked. */
  readonly requests: readonly number[];
}

/** Characters of the id of a gateway (one start of a process), of a thread in it, and of a lease. */
export const gatewayLength = 12;
export const threadLength = 10;

/** At the end of the id of a lease whose units may still be given back. */
export const heldMark = "~";
export const heldRetryUs = heldRetryMs * 1000;
/** A lease that is older is not taken for held any more: nobody may be left to report it, and a refusal beside it must be true. */
export const heldForUs = 10_000_000;

/** Units that were not spent are returned within this time after the end of their lease, or not soon. */
export const returnUs = 50_000;

/** The items of one call; more would keep the store from others for too long. */
export const mostItems = 64;
/** The reports of an item of a full call, for the same reason; if a call has fewer items, they may have more. */
export const mostReports = 32;

// How a call of the store's script is written, and how its answer is read. Arguments are flat: for each item a letter, and
// what its kind needs; then for equal requests how many they are, the number of their counters, and of each the place and the
// units. So is the answer: the store's time, of equal requests how many are granted, and for each item as many values as its
// kind has.

/** A counter's letter is followed by how many requests ask for it alone. */
const letters = { sliding: "s", calendar: "c", concurrency: "n", forget: "f", gateways: "g", secret: "v" } as const;
/** Counters of which nothing is wanted ahead, reported or told. Most items are such, and have fewer arguments. */
const plainLetters = { sliding: "S", calendar: "C", concurrency: "N" } as const;
const secretPattern = /^[0-9a-f]+$/;
const noRequests: readonly EqualRequests[] = [];

export function encodeCall(
  items: readonly Item[],
  requests: readonly EqualRequests[] = noRequests,
): { keys: string[]; args: string[] } {
  const keys: string[] = [];
  const args: string[] = [];
  for (const item of items) {
    keys.push(item.key);
    if (item.item === "gateways")
      args.push(letters.gateways, item.gateway, upwards(item.silenceUs), upwards(item.ageUs));
    else if (item.item === "secret") args.push(letters.secret, item.proposed);
    else if (item.item === "forget") {
      keys.push(item.markKey);
      args.push(letters.forget, String(item.seq), upwards(item.keepMs));
    } else {
      pushCounter(args, item);
      if (item.told !== null) keys.push(item.told.markKey);
    }
  }
  for (const { needs, count } of requests) {
    args.push(String(count), String(needs.length));
    for (const { item, units } of needs) args.push(String(item), String(units));
  }
  return { keys, args };
}

function pushCounter(args: string[], item: CounterItem): void {
  const { limit, leaseUs, step, asked, ahead, id, reports, told } = item;
  const isPlain = ahead === 0 && reports.length === 0 && told === null;
  args.push((isPlain ? plainLetters : letters)[item.item] + asked, String(limit), upwards(leaseUs), id, String(step));
  if (item.item === "sliding") args.push(upwards(item.windowUs));
  if (item.item === "calendar") args.push(String(item.keepUs), String(item.untilUs));
  if (isPlain) return;
  args.push(String(ahead), String(reports.length));
  for (const report of reports) {
    args.push(report.id, String(report.granted), String(report.spent), downwards(report.ageUs));
  }
  if (told === null) args.push("-1");
  else args.push(String(told.units), downwards(told.ageUs), String(told.forgivenUntil));
}

/** Rounds up, because a unit may count for longer than it must, but not for a shorter time. */
function upwards(us: number): string {
  return String(Math.ceil(us));
}

function downwards(us: number): string {
  return String(Math.floor(us));
}

/** Throws if the reply is not one to this call. */
export function decodeAnswer(
  reply: unknown,
  items: readonly Item[],
  requests: readonly EqualRequests[] = noRequests,
): ScriptAnswer {
  if (!Array.isArray(reply)) throw new Error("the script's reply is not a list");
  const values = new Values(reply);
  const timeUs = values.number();
  const granted = requests.map(({ count }) => Math.max(0, Math.min(count, values.number())));
  const unitsOfRequests = requests.length === 0 ? none : sumUnits(requests, granted, items.length);
  const answers = items.map((item, i) => readAnswer(values, item, unitsOfRequests[i] ?? 0));
  values.end();
  return { timeUs, items: answers, requests: granted };
}

/** Null if the reply is not the script's. */
export function decodedOrNull(
  reply: unknown,
  items: readonly Item[],
  requests: readonly EqualRequests[] = noRequests,
): ScriptAnswer | null {
  try {
    return decodeAnswer(reply, items, requests);
  } catch {
    return null;
  }
}

/** Nothing is ever added to it. */
const none: readonly number[] = [];

/** Returns for each item the units that requests of several counters were granted. */
function sumUnits(requests: readonly EqualRequests[], granted: readonly number[], items: number): readonly number[] {
  const sums = new Array<number>(items).fill(0);
  for (const [i, { needs }] of requests.entries()) {
    for (const { item, units } of needs) sums[item] = (sums[item] ?? 0) + (granted[i] ?? 0) * units;
  }
  return sums;
}

/** `unitsOfRequests`: of a counter, what requests of several counters were granted. */
function readAnswer(values: Values, item: Item, unitsOfRequests: number): ItemAnswer {
  switch (item.item) {
    case "gateways":
      return { item: "gateways", origin: values.text(), gateways: values.number() } satisfies GatewaysAnswer;
    case "secret":
      return { item: "secret", value: values.secret() } satisfies SecretAnswer;
    case "forget":
      values.number();
      return { item: "forget" } satisfies ForgetAnswer;
    default: {
      const state = values.number();
      const granted = values.number();
      // If a request that asks for the counter alone was refused, nothing was granted ahead: less than four steps were free.
      const units = granted - unitsOfRequests;
      const askedGranted = Math.min(item.asked, Math.floor(units / item.step));
      return {
        item: "counter",
        isInPeriod: state !== 0,
        isForeign: state === 2,
        isVoid: state === 3,
        granted,
        askedGranted,
        ahead: units - askedGranted * item.step,
        free: values.number(),
        resetUs: values.number(),
        fitsUs: values.number(),
        leasedUs: values.number(),
        isNew: values.flag(),
      };
    }
  }
}

class Values {
  readonly #values: readonly unknown[];
  #at = 0;

  constructor(values: readonly unknown[]) {
    this.#values = values;
  }

  number(): number {
    return wholeOf(this.#values[this.#at++]);
  }

  flag(): boolean {
    return this.number() !== 0;
  }

  text(): string {
    const value = this.#values[this.#at++];
    if (typeof value !== "string") throw new Error("a text is missing in the script's reply");
    return value;
  }

  secret(): string {
    const value = this.text();
    if (!secretPattern.test(value)) throw new Error("the secret is missing in the script's reply");
    return value;
  }

  end(): void {
    if (this.#at !== this.#values.length) throw new Error("the script's reply is too long");
  }
}

/** Throws if it is no whole number. */
export function wholeOf(value: unknown): number {
  const number = typeof value === "string" && value !== "" ? Number(value) : value;
  if (typeof number !== "number" || !Number.isSafeInteger(number))
    throw new Error("a number is missing in the script's reply");
  return number;
}

// What the store calls the key of a counter: the same for all gateways.

/** Returns where something is in the store. Gateways with another script have other keys. */
export function storeKeyOf(prefix: string, tag: string, text: string): string {
  return `${prefix}${scriptVersion}:{${tag}}:${text}`;
}

/** Returns where the counter of a policy is. `untilUs`: the end of a calendar's period, else 0. */
export function counterStoreKey(prefix: string, tag: string, policyText: string, untilUs: number): string {
  return storeKeyOf(prefix, tag, untilUs === 0 ? policyText : `${policyText}/${untilUs / 1e6}`);
}

/** Returns where the mark of a policy's counter is. A calendar has one for all its periods. */
export function markKeyOf(prefix: string, tag: string, policyText: string): string {
  return storeKeyOf(prefix, tag, `forgiven/${policyText}`);
}

/** Returns the tag of a key: an address, or a hash. */
export function storeTagOf(key: KeyWords): string {
  return `${key.isAddress ? "a" : "h"}${hexOfKey(key)}`;
}
