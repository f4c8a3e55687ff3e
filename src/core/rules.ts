// Rules that a person sets while the gateway runs: block, exempt, or limit one client, token or subject, until an end.
// They are not in the configuration. The pipeline and the limiter ask them; who sets, keeps and shares them is the gateway.

/** `block` comes before `exempt`, and `exempt` before `limit`. */
export const ruleActions = ["block", "exempt", "limit"] as const;

export type RuleAction = (typeof ruleActions)[number];

/** Whom a rule is about. */
export type RuleSubject =
  /** `value`: an address or a network, in its canonical text. */
  | { readonly kind: "client"; readonly value: string }
  /** `value`: the name of a listed token. */
  | { readonly kind: "token"; readonly value: string }
  /** `value`: the subject of a verified identity. */
  | { readonly kind: "subject"; readonly value: string };

export interface Rule {
  /** 1 to 64 letters, digits, `.`, `_` or `-`; chosen by whoever sets it. */
  readonly id: string;
  readonly about: RuleSubject;
  readonly action: RuleAction;
  /** `exempt`: null means all policies. `limit`: the policy whose limit it replaces. `block`: null. */
  readonly policy: string | null;
  /** From 1; null unless the action is `limit`. */
  readonly limit: number | null;
  /** When it was set, and from when on it does not hold, in Unix milliseconds. */
  readonly setMs: number;
  readonly endsMs: number;
  /** For people. */
  readonly note: string;
  /** The name of the admin token by which it was set, or `socket`. */
  readonly setBy: string;
  /** Rises with each change of any rule; gateways that share rules have the same. */
  readonly revision: number;
}

/** Rules that are set or replaced, and the ids of those that are removed. */
export interface RuleChange {
  readonly set: readonly Rule[];
  readonly removed: readonly string[];
}

/** So many rules take less than a millisecond or two, here and in another thread. */
const portion = 250;

/** Divides many rules, or their ids, so that no thread is busy with them for long. */
export function inPortions<T>(all: readonly T[]): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(all.length / portion) }, (_, i) => all.slice(i * portion, (i + 1) * portion));
}

/** Whose counts are forgotten. */
export type ForgivenKey =
  | RuleSubject
  /** `value`: 32 hexadecimal digits, for a key of which only a hash is known. */
  | { readonly kind: "key"; readonly value: string };

/** At most so many rules hold at once. */
export const maxRules = 10_000;
