// Finds what is wrong with the overrides of a policy whose keys are each valid.
import { formatIpAddress } from "../core/ip-address.ts";
import { withFirstAddress } from "../core/network-set.ts";
import { networkOf } from "./addresses.ts";
import type { Refuse } from "./contradictions.ts";
import { isNarrower, type PoliciesInContext, type WrittenPolicy, wideEnough } from "./policy-context.ts";
import { maxConcurrency } from "./policy-keys.ts";
import { isTokenDigest } from "./policy-leaves.ts";

export const overrideParts = ["client", "token", "subject", "header"] as const;
export type OverridePart = (typeof overrideParts)[number];
type Override = WrittenPolicy["overrides"][number];

/** `key` names a key of the policy. */
export function judgeOverrides(
  policy: WrittenPolicy,
  key: (name: string) => string,
  context: PoliciesInContext,
  refuse: Refuse,
): void {
  const seen = new Map<string, number>();
  for (const [i, override] of policy.overrides.entries()) {
    const at = key(`overrides.${i}`);
    judgeLimit(policy, override, at, key, refuse);
    const [part, second] = overrideParts.filter((name) => override[name] !== null);
    if (part === undefined) {
      refuse(at, "one of client, token, subject and header in it", ...overrideParts.map((name) => `${at}.${name}`));
      continue;
    }
    if (second !== undefined) {
      refuse(`${at}.${second}`, `none, since ${part} is set; write an override for each`, `${at}.${part}`);
      continue;
    }
    const expected = misfit(part, policy, override, context);
    const others = part === "client" ? ["clientAddress.ipv6Prefix"] : part === "token" ? ["auth.mode"] : [];
    if (expected !== undefined) refuse(`${at}.${part}`, expected, key("key"), ...others);

    const value = `${part} ${canonical(part, override)}`;
    const first = seen.get(value);
    if (first === undefined) seen.set(value, i);
    else
      refuse(`${at}.${part}`, `no second one for the same ${part}; remove one of the two`, key(`overrides.${first}`));
  }
}

function judgeLimit(
  { cost, concurrency }: WrittenPolicy,
  { limit }: Override,
  at: string,
  key: (name: string) => string,
  refuse: Refuse,
): void {
  if (limit < cost) refuse(`${at}.limit`, `at least cost (${cost}); raise it, or lower cost`, key("cost"));
  if (concurrency !== null && limit > maxConcurrency) {
    refuse(`${at}.limit`, `at most ${maxConcurrency}, since concurrency is set`, key("concurrency"));
  }
}

/** Returns what is expected if the policy's key has no such part, or not in this form. */
function misfit(
  part: OverridePart,
  policy: WrittenPolicy,
  override: Override,
  { auth, clientAddress }: PoliciesInContext,
): string | undefined {
  const parts = policy.key.filter((each) => each.split(":")[0] === part);
  const shown = `[${policy.key.join(", ")}]`;
  const named = part === "header" ? "header:NAME" : part;
  if (parts.length === 0) {
    return `none, since key is ${shown}, without ${part}; add ${named} to key, or remove this override`;
  }
  if (parts.length > 1) {
    return `none, since key is ${shown}, with more than one ${part}; leave one of them in key, or remove this override`;
  }
  if (part === "token" && auth.mode !== "tokens" && !isTokenDigest(override.token ?? "")) {
    return `a SHA-256 digest (64 hex digits), since auth.mode is ${auth.mode} and tokens have no names; write the token's digest, or set auth.mode to tokens`;
  }
  const { ipv6Prefix } = clientAddress;
  if (part === "client" && isNarrower(networkOf(override.client ?? ""), ipv6Prefix)) {
    return wideEnough(ipv6Prefix);
  }
  return undefined;
}

/** The same text for two values that mean the same. */
function canonical(part: OverridePart, override: Override): string {
  const value = override[part] ?? "";
  if (part === "token" && isTokenDigest(value)) return value.toLowerCase();
  if (part !== "client") return value;
  const { network, prefixBits } = withFirstAddress(networkOf(value));
  return `${formatIpAddress(network)}/${prefixBits}`;
}
