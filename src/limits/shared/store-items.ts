// Makes the items that a thread asks the store with.
import type { SharedStoreSettings } from "../../core/shared-store.ts";
import type { OwnCount } from "../counters.ts";
import { drift } from "./clock-watch.ts";
import type { KeyCredits } from "./key-credits.ts";
import { type CounterItem, type GatewaysItem, type LeaseReport, mostReports, scriptVersion } from "./script-call.ts";

export interface StoreItemsOptions {
  readonly settings: Pick<SharedStoreSettings, "prefix" | "lease">;
  readonly gateway: string;
  readonly thread: string;
}

/** The tag of the secret that hashes keys. */
export const secretTag = "secret";

export class StoreItems {
  readonly #options: StoreItemsOptions;
  #lastId = 0;

  constructor(options: StoreItemsOptions) {
    this.#options = options;
  }

  /** Where something is in the store. Gateways with another script have other keys. */
  key(tag: string, text: string): string {
    return `${this.#options.settings.prefix}${scriptVersion}:{${tag}}:${text}`;
  }

  /** `own`: what the store has to be told; null if nothing. */
  asking(credits: KeyCredits, needed: number, own: OwnCount | null, nowMs: number): CounterItem {
    const { isAhead } = credits.rules;
    const ahead = isAhead ? Math.max(0, credits.wantedAhead(nowMs) - credits.held(nowMs)) : 0;
    const wanted = Math.min(Math.max(needed, this.#options.settings.lease.most), needed + ahead);
    return { ...this.telling(credits, own, nowMs), needed, wanted };
  }

  /** Asks for nothing. */
  telling(credits: KeyCredits, own: OwnCount | null, nowMs: number): CounterItem {
    const reports = credits.takeReports(mostReports, nowMs);
    const told = own === null ? null : { units: own.units, ageUs: Math.floor((own.ageMs * 1000) / (1 + drift)) };
    return { ...this.reporting(credits, reports), told };
  }

  reporting({ storeKey, rules }: KeyCredits, reports: readonly LeaseReport[]): CounterItem {
    const { item, limit, windowUs, fromUs, untilUs, leaseUs, step } = rules;
    const { gateway, thread } = this.#options;
    this.#lastId += 1;
    return {
      ...{ item, key: storeKey, limit, windowUs, fromUs, untilUs, leaseUs, step },
      id: `${gateway}${thread}${this.#lastId.toString(36)}`,
      ...{ needed: 0, wanted: 0, reports, told: null },
    };
  }

  listing(tag: string, silenceMs: number): GatewaysItem {
    const { gateway } = this.#options;
    return { item: "gateways", key: this.key(tag, "gateways"), gateway, silenceUs: silenceMs * 1000 };
  }
}
