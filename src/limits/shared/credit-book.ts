// What one thread holds of all counters of the store, by policy and key. What is forgotten is returned to the store.
import type { Clock } from "../../core/clock.ts";
import type { CounterKey } from "../../core/counter-key.ts";
import { type CounterRules, KeyCredits } from "./key-credits.ts";
import { NewKeys } from "./new-keys.ts";
import { type PolicySource, SharedPolicy } from "./shared-policy.ts";
import type { StoreItems } from "./store-items.ts";

export interface CreditBookParts {
  readonly clock: Clock;
  readonly items: StoreItems;
  /** Of each policy. */
  readonly maxKeys: number;
  /** Everything that is held of a key has to be returned. */
  ended(credits: KeyCredits): void;
}

/** Keys of a policy about which something is remembered. */
const mostCredits = 65_536;
/** Keys that are looked at for one that can be forgotten. */
const mostLooks = 8;

export class CreditBook {
  readonly #parts: CreditBookParts;
  readonly #policies = new Map<string, SharedPolicy>();

  constructor(parts: CreditBookParts) {
    this.#parts = parts;
  }

  get policies(): Iterable<SharedPolicy> {
    return this.#policies.values();
  }

  /** Returns the policy with this text; with `source`, if it is new. `windowMs`: how long its requests count. */
  policy(text: string, source: PolicySource, windowMs: number): SharedPolicy {
    const known = this.#policies.get(text);
    if (known !== undefined) return known;
    const policy = new SharedPolicy(text, source, new NewKeys(this.#parts.maxKeys, windowMs));
    this.#policies.set(text, policy);
    return policy;
  }

  /** The policy is gone, and so is what is held for it. */
  retire(policy: SharedPolicy): void {
    this.#policies.delete(policy.text);
    for (const credits of policy.credits.values()) this.#parts.ended(credits);
    policy.credits.clear();
  }

  /** Begins to remember a key. */
  create(policy: SharedPolicy, tag: string, key: CounterKey, client: CounterKey, rules: CounterRules): KeyCredits {
    if (policy.credits.size >= mostCredits) this.#forgetOne(policy);
    const period = rules.untilUs === 0 ? "" : `/${rules.untilUs / 1e6}`;
    const storeKey = this.#parts.items.key(tag, `${policy.text}${period}`);
    const credits = new KeyCredits({ policy, tag, storeKey, key, client, rules });
    policy.credits.set(policy.placeOf(tag, rules.limit), credits);
    return credits;
  }

  *all(): Generator<KeyCredits> {
    for (const { credits } of this.#policies.values()) yield* credits.values();
  }

  /** Makes room for another key: one about which nothing has to be remembered, or else the oldest. */
  #forgetOne({ credits: all }: SharedPolicy): void {
    const nowMs = this.#parts.clock.monotonicMs();
    let looked = 0;
    for (const [place, credits] of all) {
      looked += 1;
      all.delete(place);
      if (looked === mostLooks || credits.isIdle(nowMs)) {
        this.#parts.ended(credits);
        return;
      }
      // The next search begins behind it.
      all.set(place, credits);
    }
  }
}
