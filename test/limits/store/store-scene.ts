// A store whose servers answer when the test says so: one shard, or a cluster in which each tag has a shard of its own.
import type {
  CallFailure,
  OnAnswer,
  SharedStoreSettings,
  StoreLink,
  StoreState,
} from "../../../src/core/store-link.ts";
import type { CounterRules } from "../../../src/limits/store/counter-rules.ts";
import type { ItemAnswer } from "../../../src/limits/store/script-call.ts";
import type { SharedKey } from "../../../src/limits/store/shared-key.ts";
import { Store } from "../../../src/limits/store/store.ts";
import { readCall, type StoreCall, writeAnswer } from "../../simulation/script-wire.ts";
import { keyOf, placeSecret, smallTable } from "../small-table.ts";
import { ManualTimers } from "./manual-timers.ts";
import { answerOf, rulesAhead } from "./some-keys.ts";

export const waitMs = 10;

const settings: SharedStoreSettings = {
  prefix: "p:",
  waitMs,
  lease: { durationMs: 1_000, most: 1_000 },
  onFailure: "local",
  replicas: 1,
  maxKeys: 1_000,
};

export class StoreScene {
  readonly timers = new ManualTimers();
  /** Calls without an answer. */
  readonly calls: (StoreCall & { readonly shard: number; readonly answered: OnAnswer })[] = [];
  readonly waitedSeconds: number[] = [];
  readonly store: Store;
  readonly #link: StoreLink;

  constructor(shards = 1) {
    const identity = { epoch: "1", evictedKeys: 0, server: "", warnings: [] };
    this.#link = {
      isClustered: shards > 1,
      shardOf: (tag: string) => (shards === 1 ? 0 : Number(tag)),
      anyTagOf: String,
      call: (shard: number, keys: readonly string[], args: readonly string[], answered: OnAnswer) =>
        void this.calls.push({ ...readCall(keys, args), shard, answered }),
      identify: (_: number, identified: (to: typeof identity, failure: null) => void) => identified(identity, null),
      reconnect() {},
      open() {},
    } as unknown as StoreLink;
    this.store = new Store({
      ...{ link: this.#link, settings, table: smallTable(), timers: this.timers, clock: this.timers.clock },
      ...{ gateway: "g", thread: "t", secret: placeSecret },
      onSecret() {},
      onChange() {},
      onGone() {},
      onIdentity() {},
      onAnswered() {},
      onWaited: (seconds) => void this.waitedSeconds.push(seconds),
    });
  }

  static async start(shards = 1): Promise<StoreScene> {
    const scene = new StoreScene(shards);
    for (let shard = 0; shard < shards; shard += 1) await scene.#up(shard);
    return scene;
  }

  /** Connects a shard, and tells it that there is nothing to tell. */
  async #up(shard: number): Promise<void> {
    this.#link.events.onConnected(shard);
    while (this.state(shard) !== "up") {
      for (const { items, answered } of this.calls.splice(0)) {
        answered(items[0]?.item === "gateways" ? [this.timeUs, "one", 1] : [this.timeUs, "ab".repeat(16)], null);
      }
      this.timers.endTurn();
      await settled();
    }
  }

  /** A key without units. `tag`: in a cluster the number of its shard. */
  key(rules: Partial<CounterRules> = {}, tag = "0"): SharedKey {
    const { store } = this;
    const of = { ...rulesAhead, ...rules };
    const source = { slot: 0, limit: of.limit, rules: () => of, periodOver() {}, own: () => null };
    const key = keyOf("192.0.2.1");
    return store.book.create(store.book.policy(`s/${tag}`, source, 60_000), tag, key, key, of);
  }

  /** Answers the oldest call: each request is granted what it asks for, but for those that want something of keys that are full. */
  grant(full: readonly SharedKey[] = []): void {
    const { items = [], requests = [], answered } = this.calls.shift() ?? {};
    const isFull = items.map(({ key }) => full.some(({ storeKey }) => storeKey === key));
    const granted = requests.map(({ needs, count }) => (needs.every(({ item }) => isFull[item] === false) ? count : 0));
    const needs = requests.flatMap((request, i) => Array.from({ length: granted[i] ?? 0 }, () => request.needs).flat());
    const answers = items.map((item, at): ItemAnswer => {
      if (isFull[at] === true) return answerOf({ fitsUs: 5_000_000 });
      const asked = "asked" in item ? item.asked * item.step : 0;
      const units = needs.reduce((sum, need) => (need.item === at ? sum + need.units : sum), asked);
      return answerOf({ granted: units, free: 9, resetUs: 60_000_000 });
    });
    answered?.(writeAnswer({ timeUs: this.timeUs, items: answers, requests: granted }), null);
  }

  /** Fails the oldest call. */
  fail(failure: CallFailure = { kind: "failed", detail: "WRONGTYPE" }): void {
    this.calls.shift()?.answered(null, failure);
  }

  /** Ends the wait for what was sent. */
  late(): void {
    this.timers.endTurn();
    this.timers.advance(waitMs);
    this.timers.endTurn();
  }

  state(shard = 0): StoreState | undefined {
    return this.store.shards.of(String(shard))?.state;
  }

  get timeUs(): number {
    return this.timers.clock.nowMs * 1000;
  }
}

/** Resolves when everything that is settled was followed up. */
export function settled(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
