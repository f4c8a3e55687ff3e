// Finds the limit of a key: that of the policy, or that of an override for its subject, token, header or client, in this
// order. A client of an exempt network has none.
import type { Identity } from "../core/authenticator.ts";
import { type Cidr, parseCidr } from "../core/ip-address.ts";
import { NetworkMap } from "../core/network-map.ts";
import type { LimitOverride, Policy } from "../core/policy.ts";
import type { ParsedRequest, RequestHead } from "../core/request-head.ts";
import { headerPart, subjectPart, type TokenDigests } from "./request-parts.ts";

/** Returns the limit; 0 if the client is exempt. */
export type KeyLimits = (request: ParsedRequest, head: RequestHead, identity: Identity | null) => number;

/** Returns null for a policy that has one limit for all keys. */
export function createKeyLimits(policy: Policy, tokens: TokenDigests): KeyLimits | null {
  const { exempt, overrides } = policy;
  if (exempt.length + overrides.length === 0) return null;
  const ofClient = createClientLimits(exempt, overrides);
  const subjects = limitsBy(overrides, "subject");
  const ofToken = createTokenLimits(overrides, tokens);
  const ofHeaders = createHeaderLimits(policy);
  return (request, head, identity) => {
    const client = ofClient(request.client);
    if (client === exempted) return exempted;
    const subject = subjects.size === 0 ? undefined : subjects.get(subjectPart(identity));
    return subject ?? ofToken(head, identity) ?? ofHeaders(head) ?? client ?? policy.limit;
  };
}

const exempted = 0;

function limitsBy(overrides: readonly LimitOverride[], part: LimitOverride["part"]): ReadonlyMap<string, number> {
  return new Map(overrides.flatMap((override) => (override.part === part ? [[override.value, override.limit]] : [])));
}

/** A token is known by its digest or, if it is verified, by its name. */
function createTokenLimits(overrides: readonly LimitOverride[], tokens: TokenDigests) {
  const digests = new Map<string, number>();
  const names = new Map<string, number>();
  for (const [value, limit] of limitsBy(overrides, "token")) {
    if (/^[0-9a-f]{64}$/i.test(value)) digests.set(value.toLowerCase(), limit);
    else names.set(value, limit);
  }
  return ({ rawHeaders }: RequestHead, identity: Identity | null): number | undefined => {
    const byDigest = digests.size === 0 ? undefined : digests.get(tokens.of(rawHeaders, identity));
    return byDigest ?? (names.size === 0 ? undefined : names.get(identity?.tokenName ?? ""));
  };
}

/** An override by header is about any header of the key. */
function createHeaderLimits({ key, overrides }: Policy) {
  const limits = limitsBy(overrides, "header");
  const names = key.flatMap((part) => (part.kind === "header" && limits.size > 0 ? [part.name] : []));
  return ({ rawHeaders }: RequestHead): number | undefined => {
    for (const name of names) {
      const limit = limits.get(headerPart(rawHeaders, name));
      if (limit !== undefined) return limit;
    }
    return undefined;
  };
}

/** The clients whose limits are remembered, because parsing an address costs more than finding its text. */
const maxKnownClients = 4096;

/** The limit of the smallest network that contains the client; that of an exempt network comes first. */
function createClientLimits(exempt: readonly string[], overrides: readonly LimitOverride[]) {
  const exemptNetworks = new NetworkMap(exempt.map((text) => [cidrOf(text), exempted] as const));
  const limits = new NetworkMap(
    [...limitsBy(overrides, "client")].map(([text, limit]) => [cidrOf(text), limit] as const),
  );
  if (exemptNetworks.size + limits.size === 0) return () => undefined;
  const known = new Map<string, number | undefined>();
  return (client: string): number | undefined => {
    const remembered = known.get(client);
    if (remembered !== undefined || known.has(client)) return remembered;
    const cidr = cidrOf(client);
    const limit = exemptNetworks.get(cidr) ?? limits.get(cidr);
    // An LRU cache would allocate for all of them, in each policy and with each reload.
    if (known.size >= maxKnownClients) known.clear();
    known.set(client, limit);
    return limit;
  };
}

/** The configuration and the client's address have been checked before. */
function cidrOf(text: string): Cidr {
  const cidr = parseCidr(text);
  if (cidr === undefined) throw new Error(`${text} is neither an address nor a network`);
  return cidr;
}
