// The keys of the store that one thread knows something of: by policy and key, in bounded memory. A key is forgotten when
// nothing that is known of it holds any more; what is held of a key that has to go earlier is returned to the store.
import type { CounterKey } from "../../core/counter-key.ts";
import type { CounterRules } from "./counter-rules.ts";
import { counterStoreKey } from "./script-call.ts";
import { NewKeys, type PolicySource, SharedKey, StorePolicy, type UnitCounts } from "./shared-key.ts";
import type { Timing } from "./store-clock.ts";

/** How many keys of all policies a thread remembers. A key takes up to 640 bytes, so these are 16 MiB. */
export const mostKeys = 26_000;
/** How many keys are looked at for one that can be forgotten. */
const mostLooks = 8;
/** How often a sweep looks for keys that are out of date, and at how many keys in one turn of the event loop. */
const [sweepMs, sweptInTurn] = [250, 1_024];

interface BookSettings {
  readonly prefix: string;
  readonly maxKeys: number;
}

export class KeyBook {
  readonly #timing: Timing;
  readonly #settings: BookSettings;
  readonly #units: UnitCounts;
  readonly #ended: (known: SharedKey) => void;
  readonly #policies = new Map<string, StorePolicy>();
  /** The oldest first. */
  readonly #known = new Set<SharedKey>();
  /** Where the next sweep begins, and the next search for a key that makes room. Each skips the keys that are gone only once. */
  #swept = this.#known.values();
  #looked = this.#known.values();
  #timer: { cancel(): void } | null = null;

  /** `ended`: gives back all that is held of a key. */
  constructor(timing: Timing, settings: BookSettings, units: UnitCounts, ended: (known: SharedKey) => void) {
    this.#timing = timing;
    this.#settings = settings;
    this.#units = units;
    this.#ended = ended;
  }

  get policies(): Iterable<StorePolicy> {
    return this.#policies.values();
  }

  /** Returns the policy with this text; with `source`, if it is new. `windowMs`, `stayMs`: see `StorePolicy` and `NewKeys`. */
  policy(text: string, source: PolicySource, windowMs: number, stayMs = windowMs): StorePolicy {
    const known = this.#policies.get(text);
    if (known !== undefined) return known;
    const policy = new StorePolicy(text, source, windowMs, new NewKeys(this.#settings.maxKeys, stayMs), this.#units);
    this.#policies.set(text, policy);
    return policy;
  }

  /** Forgets a policy that is gone, and gives back what is held for it. */
  retire(policy: StorePolicy): void {
    this.#policies.delete(policy.text);
    for (const known of policy.keys.values()) {
      this.#known.delete(known);
      this.#ended(known);
    }
    policy.keys.clear();
  }

  /** Begins to remember a key. What was known of it in an earlier period is forgotten. */
  create(policy: StorePolicy, tag: string, key: CounterKey, client: CounterKey, rules: CounterRules): SharedKey {
    if (this.#known.size >= mostKeys) this.#forgetOne();
    const storeKey = counterStoreKey(this.#settings.prefix, tag, policy.text, rules.untilUs);
    const name = policy.nameOf(tag, rules.limit);
    const before = policy.keys.get(name);
    if (before !== undefined) this.#forget(before);
    const known = new SharedKey({ policy, name, tag, storeKey, key, client, rules });
    if (isNetwork(known)) policy.networks += 1;
    policy.keys.set(name, known);
    this.#known.add(known);
    this.#timer ??= this.#timing.timers.after(sweepMs, () => this.#sweep());
    return known;
  }

  all(): Iterable<SharedKey> {
    return this.#known;
  }

  close(): void {
    this.#timer?.cancel();
  }

  #forget(known: SharedKey): void {
    const { policy, name } = known;
    this.#known.delete(known);
    policy.keys.delete(name);
    if (isNetwork(known)) policy.networks -= 1;
  }

  /** Makes room for another key: one about which nothing has to be remembered, or else the oldest. */
  #forgetOne(): void {
    const nowMs = this.#timing.clock.monotonicMs();
    for (let looked = 1; ; looked += 1) {
      let { value: known } = this.#looked.next();
      if (known === undefined) {
        this.#looked = this.#known.values();
        known = this.#looked.next().value as SharedKey;
      }
      if (looked < mostLooks && !known.isIdle(nowMs)) continue;
      this.#forget(known);
      // Otherwise the key would stay in memory until a slow store was told.
      known.untold.requests = 0;
      this.#ended(known);
      return;
    }
  }

  #sweep(): void {
    const { clock, timers } = this.#timing;
    const nowMs = clock.monotonicMs();
    for (let looked = 0; looked < sweptInTurn; looked += 1) {
      const { value: known } = this.#swept.next();
      if (known === undefined) {
        this.#swept = this.#known.values();
        break;
      }
      if (known.isOver(nowMs)) this.#forget(known);
    }
    this.#timer = this.#known.size === 0 ? null : timers.after(sweepMs, () => this.#sweep());
  }
}

/** Whether the key is a network that is counted as one. */
function isNetwork({ tag }: SharedKey): boolean {
  return tag.startsWith("n");
}
