// What a call of the store's script asks and answers. A call is about several counters, whose items do not depend on each
// other. All instants of a call are of the store's clock; what the gateway says of time are ages.
import { heldRetryMs } from "../counters.ts";

/** Another number in the keys: gateways whose scripts differ count apart, and do not misread each other. */
export const scriptVersion = 1;

/**
 * What is asked of one counter. `sliding`: a unit counts for a window after it was spent. `calendar`: until the end of a
 * period. `concurrency`: until it is given back, or `leaseUs` after it was renewed last.
 */
export interface CounterItem {
  readonly item: "sliding" | "calendar" | "concurrency";
  /** The whole key, with its tag in braces. */
  readonly key: string;
  readonly limit: number;
  /** Sliding: the window. Others: 0. */
  readonly windowUs: number;
  /** Calendar: the period, from inclusive until exclusive, in microseconds since 1970. Others: 0. */
  readonly fromUs: number;
  readonly untilUs: number;
  readonly leaseUs: number;
  /** Units are granted in multiples of this: the cost of a request. */
  readonly step: number;
  /** Units that requests wait for now. */
  readonly needed: number;
  /** Units that are wanted, those too; above `needed`, at most a quarter of what is free. */
  readonly wanted: number;
  /**
   * Of the lease that a grant makes, never used again: the gateway's id, the thread's, and a number. With `heldMark` at its
   * end, the units are held until they are reported, and a refusal beside them may end soon.
   */
  readonly id: string;
  /** What became of units that were granted before. Done before anything is granted; may be repeated. */
  readonly reports: readonly LeaseReport[];
  /** What this gateway has admitted and what still counts; null: nothing has to be told. Done after the reports. */
  readonly told: Told | null;
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
}

/** The list of the gateways that share the store, which shows too whether the store has forgotten. */
export interface GatewaysItem {
  readonly item: "gateways";
  readonly key: string;
  /** `gatewayLength` characters. */
  readonly gateway: string;
  /** A gateway that is silent for longer is gone. */
  readonly silenceUs: number;
  /** So long ago it was heard last: more than 0 if it leaves, so that it is gone soon. */
  readonly ageUs: number;
}

/** A value that the first gateway sets and all use. */
export interface SecretItem {
  readonly item: "secret";
  readonly key: string;
  /** Set if there is none. Hexadecimal. */
  readonly proposed: string;
}

export type Item = CounterItem | GatewaysItem | SecretItem;

export interface CounterAnswer {
  readonly item: "counter";
  /** Calendar: false if the store's clock is not within the period; then nothing else was done. */
  readonly isInPeriod: boolean;
  /** Something else is under the key; then nothing was done. */
  readonly isForeign: boolean;
  /** 0, or a multiple of the step. */
  readonly granted: number;
  /** What is left of the limit after it. */
  readonly free: number;
  /** After this time by the store's clock as it runs, something that counts now no longer does; -1 if nothing counts. */
  readonly resetUs: number;
  /**
   * After this time, `step` units are free, if nobody else takes them; 0: they are now; -1: never, by this limit. At most
   * `heldRetryUs` if units that are held could make room.
   */
  readonly fitsUs: number;
  /** Whether the counter was not in the store before. */
  readonly isNew: boolean;
}

export interface GatewaysAnswer {
  readonly item: "gateways";
  /** Whether this gateway was in the list. */
  readonly wasListed: boolean;
  readonly gateways: number;
}

export interface SecretAnswer {
  readonly item: "secret";
  readonly value: string;
}

export type ItemAnswer = CounterAnswer | GatewaysAnswer | SecretAnswer;

export interface ScriptAnswer {
  /** The store's clock, as it is, at the call. */
  readonly timeUs: number;
  /** In the order of the items. */
  readonly items: readonly ItemAnswer[];
}

/** Characters of the id of a gateway (one start of a process), of a thread in it, and of a lease. */
export const gatewayLength = 12;
export const threadLength = 10;

/** At the end of the id of a lease whose units may still be given back. */
export const heldMark = "~";
export const heldRetryUs = heldRetryMs * 1000;

/** The items of one call; more would keep the store from others for too long. */
export const mostItems = 64;
/** The reports of one item, for the same reason. */
export const mostReports = 32;
