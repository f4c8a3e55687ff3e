// Finds what is wrong with policies whose keys are each valid: which kind of limit it is, what the key must contain for
// an override, what cannot be combined.
import { isWithin } from "../core/ip-address.ts";
import { networkOf } from "./addresses.ts";
import type { Refuse } from "./contradictions.ts";
import { mayBeUnder } from "./match-regions.ts";
import { judgeOverrides } from "./override-pairs.ts";
import { isNarrower, type PoliciesInContext, type WrittenPolicy, wideEnough } from "./policy-context.ts";
import { type Raw, rawAt } from "./raw.ts";

/** Above it, admissions may be grouped in cells, and no single one can be given back. */
const maxChargedLimit = 10_000;

/** `key` names a key of the policy. */
interface Judged {
  readonly policy: WrittenPolicy;
  readonly key: (name: string) => string;
  readonly context: PoliciesInContext;
  readonly raw: Raw | undefined;
}

export function judgePolicies(context: PoliciesInContext, raw: Raw | undefined, refuse: Refuse): void {
  const names = context.policies.map(({ name }) => name);
  for (const [index, policy] of context.policies.entries()) {
    const at = `policies.${index}`;
    const key = (name: string): string => (name === "" ? at : `${at}.${name}`);
    const first = names.indexOf(policy.name);
    if (first < index) {
      const expected = `no second "${policy.name}" (policies.${first}); give one of the two another name`;
      refuse(key("name"), expected, `policies.${first}.name`);
    }
    const judged = { policy, key, context, raw };
    judgeKind(judged, refuse);
    judgeLimit(judged, refuse);
    judgeCharge(judged, refuse);
    judgeMatch(judged, refuse);
    judgeKey(judged, refuse);
    judgeExempt(judged, refuse);
    judgeOverrides(policy, key, context, refuse);
  }
}

function judgeKind({ policy, key }: Judged, refuse: Refuse): void {
  const { limit, windowMs, per, timezone, concurrency } = policy;
  const kinds = ["limit", "window", "per", "concurrency"].map(key);
  if (concurrency !== null) {
    for (const [name, value] of Object.entries({ limit, window: windowMs, per })) {
      if (value === null) continue;
      refuse(key(name), "none, since concurrency is set; remove one of the two", key("concurrency"));
    }
  } else if (limit === null) {
    const set = windowMs !== null ? "window" : per !== null ? "per" : undefined;
    const expected =
      set === undefined
        ? "one of limit with window, limit with per, and concurrency in it"
        : `a whole number, since ${set} is set`;
    refuse(key(set === undefined ? "" : "limit"), expected, ...kinds, key(""));
  } else if (windowMs === null && per === null) {
    refuse(key("window"), 'the length of the window, such as "60s"; add it, or set per', ...kinds);
  }
  if (windowMs !== null && per !== null && concurrency === null) {
    refuse(key("per"), "none, since window is set; remove one of the two", key("window"));
  }
  if (timezone !== null && per === null) {
    refuse(key("timezone"), "none, since per is not set; remove it, or set per", key("per"));
  }
}

function judgeLimit({ policy, key }: Judged, refuse: Refuse): void {
  const { limit, concurrency, cost } = policy;
  const bound = concurrency ?? limit;
  const name = concurrency === null ? "limit" : "concurrency";
  if (bound !== null && cost > bound) {
    refuse(key("cost"), `at most ${name} (${bound}); lower it, or raise ${name}`, key(name));
  }
}

function judgeCharge({ policy, key, raw }: Judged, refuse: Refuse): void {
  const { charge, concurrency, limit, overrides } = policy;
  if (charge.statuses.length === 0) {
    const written = rawAt(raw, key("charge").split("."));
    const expected = "the statuses that are charged, such as [401, 403]";
    if (written?.kind === "mapping") refuse(key("charge.statuses"), expected, key("charge"));
    return;
  }
  if (concurrency !== null) {
    const expected = "none, since concurrency is set; remove charge, or use limit and window instead of concurrency";
    refuse(key("charge.statuses"), expected, key("concurrency"));
    return;
  }
  const expected = `at most ${maxChargedLimit}, since charge is set; lower it, or remove charge`;
  if ((limit ?? 0) > maxChargedLimit) refuse(key("limit"), expected, key("charge"));
  for (const [i, override] of overrides.entries()) {
    if (override.limit > maxChargedLimit) refuse(key(`overrides.${i}.limit`), expected, key("charge"));
  }
}

function judgeMatch({ policy: { match }, key, context: { routes, basePath } }: Judged, refuse: Refuse): void {
  for (const [i, path] of match.paths.entries()) {
    if (routes.some((route) => mayBeUnder(path, route))) continue;
    const isWithBase = basePath !== "/" && `${path}/`.startsWith(`${basePath}/`);
    const expected = `a path under one of the routes (${routes.join(", ")})${isWithBase ? ", without basePath" : "; change it, or add its route to routes"}`;
    refuse(key(`match.paths.${i}`), expected, "routes", ...(isWithBase ? ["basePath"] : []));
  }
}

function judgeKey({ policy, key, context: { auth } }: Judged, refuse: Refuse): void {
  for (const [i, part] of policy.key.entries()) {
    const at = key(`key.${i}`);
    if (part.startsWith("claim:")) {
      refuse(at, "another part; claims need auth.mode jwt, which is not supported yet");
    } else if (part === "subject" && auth.mode !== "tokens") {
      refuse(at, `another part, since auth.mode is ${auth.mode}; use token, or set auth.mode to tokens`, "auth.mode");
    }
  }
}

function judgeExempt({ policy: { exempt, overrides }, key, context: { clientAddress } }: Judged, refuse: Refuse): void {
  const { ipv6Prefix } = clientAddress;
  const networks = exempt.map(networkOf);
  for (const [i, network] of networks.entries()) {
    if (!isNarrower(network, ipv6Prefix)) continue;
    refuse(key(`exempt.${i}`), wideEnough(ipv6Prefix), "clientAddress.ipv6Prefix");
  }
  for (const [i, { client }] of overrides.entries()) {
    if (client === null) continue;
    const { network, prefixBits } = networkOf(client);
    const outer = networks.findIndex((each) => each.prefixBits <= prefixBits && isWithin(network, each));
    if (outer === -1) continue;
    const expected = `a network outside of ${exempt[outer]}, which is exempt; remove it here or in exempt`;
    refuse(key(`overrides.${i}.client`), expected, key("exempt"));
  }
}
