// What rules say of a client and an identity, beside a naive model that looks at all rules each time.
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type CounterKey, countedKey } from "../../src/core/counter-key.ts";
import { isWithin, parseCidr, parseIpAddress } from "../../src/core/ip-address.ts";
import type { KeyPart } from "../../src/core/policy.ts";
import { type Rule, ruleActions } from "../../src/core/rules.ts";
import { type RuledIdentity, RulesInForce } from "../../src/core/rules-in-force.ts";
import { client, ruleOf } from "../support/rule.ts";
import { runs } from "../support/runs.ts";

function keyOf(address: string, ipv6Prefix = 64): CounterKey {
  const parsed = parseIpAddress(address);
  if (parsed === undefined) throw new Error(`${address} is no address`);
  return countedKey(parsed, ipv6Prefix);
}

function inForce(...rules: readonly Rule[]): RulesInForce {
  const all = new RulesInForce();
  all.ipv6Prefix = 64;
  all.apply({ set: rules, removed: [] });
  return all;
}

const byClient = { name: "per-ip", key: [{ kind: "client" }] } as const satisfies { name: string; key: KeyPart[] };
const byToken = { name: "per-token", key: [{ kind: "token" }, { kind: "subject" }] } as const satisfies {
  name: string;
  key: KeyPart[];
};
const alice: RuledIdentity = { tokenName: "alice", subject: "alice@example" };

const limit = (id: string, about: Rule["about"], value: number, policy = "per-ip"): Rule =>
  ruleOf(id, about, { action: "limit", policy, limit: value });

describe("what rules say", () => {
  interface Scenario {
    readonly claim: string;
    readonly rules: readonly Rule[];
    readonly address?: string;
    readonly identity?: RuledIdentity;
    readonly policy?: typeof byClient | typeof byToken;
    readonly blocks?: string;
    readonly limit?: number;
  }
  const exempt = { action: "exempt" } as const;
  const scenarios: readonly Scenario[] = [
    { claim: "nothing of another address", rules: [ruleOf("a", client("192.0.2.2"))] },
    { claim: "an address is blocked", rules: [ruleOf("a", client("192.0.2.1"))], blocks: "a" },
    {
      claim: "the smallest of the networks that block is named",
      rules: [
        ruleOf("a", client("192.0.0.0/16")),
        ruleOf("b", client("192.0.2.0/24")),
        ruleOf("c", client("0.0.0.0/0")),
      ],
      blocks: "b",
    },
    { claim: "::/0 contains IPv4 addresses, too", rules: [ruleOf("a", client("::/0"))], blocks: "a" },
    { claim: "2000::/3 contains none", rules: [ruleOf("a", client("2000::/3"))] },
    { claim: "0.0.0.0/0 contains no IPv6 address", rules: [ruleOf("a", client("0.0.0.0/0"))], address: "2001:db8::1" },
    {
      claim: "an IPv6 client is one network",
      rules: [ruleOf("a", client("2001:db8:0:1::/64"))],
      address: "2001:db8:0:1:2:3:4:5",
      blocks: "a",
    },
    {
      claim: "a network smaller than an IPv6 client says nothing",
      rules: [ruleOf("a", client("2001:db8::/65"))],
      address: "2001:db8::1",
    },
    {
      claim: "a translated address is blocked as the IPv4 address in it",
      rules: [ruleOf("a", client("192.0.2.0/24"))],
      address: "64:ff9b::192.0.2.1",
      blocks: "a",
    },
    {
      claim: "a translated address is blocked as it stands, too",
      rules: [ruleOf("a", client("64:ff9b::/64"))],
      address: "64:ff9b::192.0.2.1",
      blocks: "a",
    },
    {
      claim: "an IPv4 address is not blocked with the translator's network",
      rules: [ruleOf("a", client("64:ff9b::/64"))],
    },
    {
      claim: "a private address behind the translator's prefix is not the one here",
      rules: [ruleOf("a", client("10.0.0.0/8"))],
      address: "64:ff9b::10.0.0.1",
    },
    {
      claim: "an exemption of the IPv4 address is none of the translated one",
      rules: [ruleOf("a", client("192.0.2.0/24"), exempt)],
      address: "64:ff9b::192.0.2.1",
    },
    {
      claim: "an exemption of the translator's network",
      rules: [ruleOf("a", client("64:ff9b::/64"), exempt), limit("b", client("192.0.2.1"), 7)],
      address: "64:ff9b::192.0.2.1",
      limit: 0,
    },
    {
      claim: "of the limits of a translated address, the lower holds",
      rules: [limit("a", client("64:ff9b::/64"), 3), limit("b", client("192.0.2.1"), 4)],
      address: "64:ff9b::192.0.2.1",
      limit: 3,
    },
    {
      claim: "a translated address has the limit of the IPv4 address",
      rules: [limit("b", client("192.0.2.1"), 4)],
      address: "64:ff9b::192.0.2.1",
      limit: 4,
    },
    {
      claim: "an exemption comes before a limit of a smaller network",
      rules: [ruleOf("a", client("192.0.2.0/24"), exempt), limit("b", client("192.0.2.1"), 7)],
      limit: 0,
    },
    {
      claim: "an exemption from another policy says nothing",
      rules: [ruleOf("a", client("192.0.2.0/24"), { ...exempt, policy: "other" }), limit("b", client("192.0.2.1"), 7)],
      limit: 7,
    },
    {
      claim: "the limit of the smallest network counts",
      rules: [limit("a", client("192.0.2.0/24"), 3), limit("b", client("192.0.2.0/25"), 4)],
      limit: 4,
    },
    {
      claim: "of two rules about one network, the one that was set last counts",
      rules: [limit("a", client("192.0.2.1"), 3), { ...limit("b", client("192.0.2.1"), 4), revision: 0 }],
      limit: 3,
    },
    {
      claim: "the limit of a client does not touch a policy that is not keyed by client",
      rules: [limit("a", client("192.0.2.1"), 3, "per-token")],
      policy: byToken,
      identity: alice,
    },
    {
      claim: "the limit of a subject comes before that of a token",
      rules: [
        limit("a", { kind: "token", value: "alice" }, 3, "per-token"),
        limit("b", { kind: "subject", value: "alice@example" }, 4, "per-token"),
      ],
      policy: byToken,
      identity: alice,
      limit: 4,
    },
    {
      claim: "a token's rule says nothing before its check",
      rules: [ruleOf("a", { kind: "token", value: "alice" }, exempt)],
    },
    {
      claim: "an exemption of a token",
      rules: [ruleOf("a", { kind: "token", value: "alice" }, exempt)],
      identity: alice,
      limit: 0,
    },
    { claim: "a blocked token", rules: [ruleOf("a", { kind: "token", value: "alice" })], identity: alice, blocks: "a" },
    {
      claim: "a name is no subject",
      rules: [ruleOf("a", { kind: "subject", value: "alice" })],
      identity: alice,
    },
  ];
  test.each(scenarios)(
    "$claim",
    ({ rules, address = "192.0.2.1", identity = null, policy = byClient, ...expected }) => {
      const all = inForce(...rules);
      const key = keyOf(address);
      const block = all.blockOfClient(key) ?? (identity && all.blockOfIdentity(identity));
      expect([block?.id, all.limitOf(policy, key, identity)]).toEqual([expected.blocks, expected.limit]);
    },
  );

  test("what is said of a key changes with the rules, although the key is used again", () => {
    const all = inForce();
    const key = keyOf("192.0.2.1");
    expect([all.isEmpty, all.blockOfClient(key)]).toEqual([true, null]);
    all.apply({ set: [ruleOf("a", client("192.0.2.1"))], removed: [] });
    expect([all.isEmpty, all.blockOfClient(key)?.id]).toEqual([false, "a"]);
    all.apply({ set: [ruleOf("a", client("192.0.2.2"))], removed: [] });
    expect(all.blockOfClient(key)).toBeNull();
    all.apply({ set: [ruleOf("b", client("192.0.2.0/24"))], removed: ["a"] });
    expect(all.blockOfClient(key)?.id).toBe("b");
    all.apply({ set: [], removed: ["b", "unknown"] });
    expect([all.isEmpty, all.blockOfClient(key)]).toEqual([true, null]);
  });

  test("how many bits tell IPv6 clients apart may change", () => {
    const all = inForce(ruleOf("a", client("2001:db8::/56")));
    const key = keyOf("2001:db8::1", 48);
    expect(all.blockOfClient(key)?.id).toBe("a");
    all.ipv6Prefix = 48;
    expect(all.blockOfClient(key)).toBeNull();
    all.ipv6Prefix = 56;
    expect(all.blockOfClient(key)?.id).toBe("a");
  });
});

/** Few values, so that networks contain each other and addresses are in them. */
const ipv4 = fc.tuple(
  fc.constantFrom(10, 192),
  fc.constantFrom(0, 128),
  fc.constantFrom(0, 1, 255),
  fc.nat({ max: 3 }),
);
const ipv6 = fc.tuple(
  fc.constantFrom("2001", "2a00"),
  fc.constantFrom("db8", "0", "ffff"),
  fc.constantFrom("0", "1", "80"),
);
const addresses = fc.oneof(
  ipv4.map((octets) => octets.join(".")),
  ipv6.map((groups) => `${groups.join(":")}:${groups[2]}::1`),
);
const networks = fc
  .tuple(addresses, fc.nat({ max: 32 }))
  .map(([address, bits]) => `${address}/${address.includes(":") ? bits * 2 : bits}`);
const policies = [byClient, byToken, { name: "both", key: [{ kind: "client" }, { kind: "token" }] }] as const;

const abouts: fc.Arbitrary<Rule["about"]> = fc.oneof(
  { weight: 4, arbitrary: networks.map(client) },
  { weight: 1, arbitrary: fc.constantFrom("alice", "bob").map((value) => ({ kind: "token" as const, value })) },
  { weight: 1, arbitrary: fc.constantFrom("a@x", "b@x").map((value) => ({ kind: "subject" as const, value })) },
);
const effects = fc.oneof(
  fc.constant({ action: "block" as const, policy: null, limit: null }),
  fc
    .constantFrom(null, ...policies.map(({ name }) => name))
    .map((policy) => ({ action: "exempt" as const, policy, limit: null })),
  fc
    .tuple(fc.constantFrom(...policies.map(({ name }) => name)), fc.integer({ min: 1, max: 9 }))
    .map(([policy, limit]) => ({ action: "limit" as const, policy, limit })),
);
const steps = fc.array(
  fc.record({
    id: fc.nat({ max: 30 }).map(String),
    about: abouts,
    effect: effects,
    removes: fc.boolean(),
    address: addresses,
  }),
  { maxLength: 60 },
);
const identities = fc.record({
  tokenName: fc.constantFrom(null, "alice", "bob"),
  subject: fc.constantFrom(null, "a@x", "b@x"),
});

/** All rules that are about a client or an identity, in the order in which they count. */
function naive(rules: readonly Rule[], address: string, identity: RuledIdentity | null): readonly Rule[] {
  const parsed = parseIpAddress(address);
  const rank = ({ about }: Rule): number => {
    if (about.kind === "subject") return 1000;
    return about.kind === "token" ? 999 : (parseCidr(about.value)?.prefixBits ?? -1);
  };
  return rules
    .filter(({ about }) => {
      if (about.kind === "token") return identity?.tokenName === about.value;
      if (about.kind === "subject") return identity?.subject === about.value;
      const cidr = parseCidr(about.value);
      return cidr !== undefined && parsed !== undefined && isWithin(parsed, cidr);
    })
    .sort(
      (x, y) =>
        ruleActions.indexOf(x.action) - ruleActions.indexOf(y.action) || rank(y) - rank(x) || y.revision - x.revision,
    );
}

test("is what a look at every rule says, after any changes", () => {
  fc.assert(
    fc.property(steps, identities, (list, identity) => {
      const all = new RulesInForce();
      all.ipv6Prefix = 64;
      const known = new Map<string, Rule>();
      const keys = new Map<string, CounterKey>();
      for (const [i, { id, about, effect, removes, address }] of list.entries()) {
        const rule = ruleOf(id, about, { ...effect, revision: i });
        if (removes) known.delete(id);
        else known.set(id, rule);
        all.apply(removes ? { set: [], removed: [id] } : { set: [rule], removed: [] });
        expect(all.isEmpty).toBe(known.size === 0);

        const key = keys.get(address) ?? keyOf(address);
        keys.set(address, key);
        const ofClient = naive([...known.values()], address, null);
        const ofAll = naive([...known.values()], address, identity);
        const ofIdentity = ofAll.filter(({ about: { kind } }) => kind !== "client");
        expect(all.ofClient(key)).toEqual(ofClient);
        expect(all.ofIdentity(identity)).toEqual(ofIdentity);
        const blockIn = (rules: readonly Rule[]) => rules.find(({ action }) => action === "block") ?? null;
        expect(all.blockOfClient(key)).toEqual(blockIn(ofClient));
        expect(all.blockOfIdentity(identity)).toEqual(blockIn(ofIdentity));
        for (const policy of policies) {
          const of = (action: Rule["action"]) =>
            ofAll.filter((each) => each.action === action && (each.policy === null || each.policy === policy.name));
          const limits = of("limit").filter(({ about: { kind } }) => policy.key.some((part) => part.kind === kind));
          const expected = of("exempt").length > 0 ? 0 : (limits[0]?.limit ?? undefined);
          expect(all.limitOf(policy, key, identity)).toBe(expected);
        }
      }
    }),
    runs(300),
  );
});
