// Reads the parts of a request that a client chooses, for keys and for the limits of some keys. A part that is missing,
// or that the upstream could read in another way, is "": the client is charged instead.
import { hash } from "node:crypto";
import { type Identity, readBearer } from "../core/authentication.ts";
import { readPeer } from "../core/client-address.ts";
import { addressOfKey, CounterKey } from "../core/counter-key.ts";
import { type HeaderList, onlyHeaderValue, trimBlanks } from "../core/headers.ts";
import { cidrOf } from "../core/ip-address.ts";
import type { LimitedClient } from "../core/limiter.ts";
import { MethodMatcher, toldMethods } from "../core/method.ts";
import { NetworkMap, NetworkSet } from "../core/network-set.ts";
import { PathPatterns } from "../core/path-patterns.ts";
import type { KeyPart, LimitOverride, Policy } from "../core/policy.ts";
import type { ParsedRequest, RequestHead } from "../core/request-head.ts";
import { lower, type RulesInForce } from "../core/rules-in-force.ts";
import type { SipHash } from "./table/sip-hash.ts";

/** Longer values would cost more to hash than their client spends on them. */
const maxValueLength = 1024;

/** Returns the value of a header that the request has exactly once. `name` is in lower case. */
function headerPart(rawHeaders: HeaderList, name: string): string {
  return bounded(trimBlanks(onlyHeaderValue(rawHeaders, name) ?? ""));
}

/** For what reads nothing but the client or the identity. */
export const noHead: RequestHead = {
  peer: readPeer(undefined, { header: "x-forwarded-for", trustedProxies: new NetworkSet([]), ipv6Prefix: 64 }),
  method: "",
  rawHeaders: [],
  target: "",
  httpVersion: "other",
};

/** Hashes the token of a request once, however many policies ask for it: a token may be as long as a head. */
export class TokenDigests {
  #rawHeaders: HeaderList | null = null;
  #digest = "";

  /**
   * Returns the SHA-256 digest of the bearer token, in hex. Without a verified identity, it is that of any well-formed
   * token. The digest is the same in all modes, so that a key outlives a change of the mode.
   */
  of(rawHeaders: HeaderList, identity: Identity | null): string {
    if (identity !== null) return identity.tokenDigest;
    if (rawHeaders === this.#rawHeaders) return this.#digest;
    const credential = readBearer(rawHeaders);
    this.#rawHeaders = rawHeaders;
    this.#digest = credential.kind === "token" ? hash("sha256", credential.token, "hex") : "";
    return this.#digest;
  }

  /** Must be called when all policies have been asked: nothing of a request stays in memory. */
  forget(): void {
    this.#rawHeaders = null;
    this.#digest = "";
  }
}

function subjectPart(identity: Identity | null): string {
  return bounded(identity?.subject ?? "");
}

function bounded(value: string): string {
  return value.length > maxValueLength ? "" : value;
}

// Reads the key under which a policy charges a request. The key has a fixed size, and a value that a client has chosen
// cannot be found in it. Each part is tagged with its kind and preceded by its length, so that no value passes for
// another one, and a part that the request lacks is replaced by its client, so that leaving it out gains nothing.

export type KeyReader = (request: ParsedRequest, head: RequestHead, identity: Identity | null) => CounterKey;

/** `hash`: with a random key, the same as long as what is counted by the keys is in use. */
export function createKeyReader({ key }: Policy, hash: SipHash, tokens: TokenDigests): KeyReader {
  if (key.length === 0) return () => oneForAll;
  if (isByAddress({ key })) return ({ counterKey }) => counterKey;
  const text = new TaggedText();
  return (request, head, identity) => {
    for (const part of key) {
      const value = partOf(part, request, head, identity, tokens);
      if (value === "") text.add(tags.client, request.client);
      else text.add(tags[part.kind], value);
    }
    const hashed = hash.key(text.bytes, text.length);
    text.erase();
    return hashed;
  };
}

/** Whether the keys of a policy are the addresses of clients; otherwise they are hashes. */
export function isByAddress({ key }: { readonly key: Policy["key"] }): boolean {
  return key.length === 1 && key[0]?.kind === "client";
}

/** No hash is likely to be the same, and a policy has keys of one kind only. */
const oneForAll = new CounterKey(0, 0, 0, 0, false);

const tags: Readonly<Record<KeyPart["kind"], number>> = {
  client: 1,
  token: 2,
  subject: 3,
  claim: 4,
  header: 5,
  method: 6,
  route: 7,
};

/** Returns "" if the request lacks the part. */
function partOf(
  part: KeyPart,
  request: ParsedRequest,
  head: RequestHead,
  identity: Identity | null,
  tokens: TokenDigests,
): string {
  switch (part.kind) {
    case "client":
      return request.client;
    case "token":
      return tokens.of(head.rawHeaders, identity);
    case "subject":
      return subjectPart(identity);
    case "claim":
      return bounded(identity?.claims.get(part.name) ?? "");
    case "header":
      return headerPart(head.rawHeaders, part.name);
    case "method":
      return ownKeys.has(head.method) ? head.method : "other";
    case "route":
      return request.route ?? "";
  }
}

const ownKeys: ReadonlySet<string> = new Set(toldMethods);

/** Tagged texts one after the other, in one buffer that is used again for each request. */
class TaggedText {
  bytes = Buffer.alloc(256);
  length = 0;

  add(tag: number, text: string): void {
    this.#reserve(5 + text.length * 2);
    const start = this.length + 5;
    let seen = 0;
    for (let i = 0; i < text.length; i += 1) {
      const code = text.charCodeAt(i);
      this.bytes[start + i] = code;
      seen |= code;
    }
    // Headers have one byte for each character. A text with others, such as a name, has two, and another tag.
    const isWide = seen > 0xff;
    if (isWide) this.bytes.write(text, start, "utf16le");
    const size = isWide ? text.length * 2 : text.length;
    this.bytes[this.length] = isWide ? tag | 0x80 : tag;
    this.bytes.writeUInt32LE(size, this.length + 1);
    this.length = start + size;
  }

  /** No value of a request stays in memory. */
  erase(): void {
    this.bytes.fill(0, 0, this.length);
    this.length = 0;
  }

  #reserve(more: number): void {
    if (this.length + more <= this.bytes.length) return;
    const larger = Buffer.alloc((this.length + more) * 2);
    larger.set(this.bytes);
    this.bytes.fill(0);
    this.bytes = larger;
  }
}

// Finds the limit of a key: that of the policy, or that of an override for its subject, token, header or client, in this
// order. A client of an exempt network has none.

/** Returns the limit; 0 if the client is exempt. */
export type KeyLimits = (client: LimitedClient, head: RequestHead, identity: Identity | null) => number;

/** Returns null for a policy that has one limit for all keys. */
export function createKeyLimits(policy: Policy, tokens: TokenDigests): KeyLimits | null {
  const { exempt, overrides } = policy;
  if (exempt.length + overrides.length === 0) return null;
  const ofClient = createClientLimits(exempt, overrides);
  const subjects = limitsBy(overrides, "subject");
  const ofToken = createTokenLimits(overrides, tokens);
  const ofHeaders = createHeaderLimits(policy);
  return (client, head, identity) => {
    const limit = ofClient(client);
    if (limit === exempted) return exempted;
    const subject = subjects.size === 0 ? undefined : subjects.get(subjectPart(identity));
    return subject ?? ofToken(head, identity) ?? ofHeaders(head) ?? limit ?? policy.limit;
  };
}

const exempted = 0;

function limitsBy(overrides: readonly LimitOverride[], part: LimitOverride["part"]): ReadonlyMap<string, number> {
  return new Map(overrides.flatMap((override) => (override.part === part ? [[override.value, override.limit]] : [])));
}

function clientLimits(overrides: readonly LimitOverride[]): NetworkMap<number> {
  return new NetworkMap([...limitsBy(overrides, "client")].map(([text, limit]) => [cidrOf(text), limit] as const));
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

/**
 * The limit of the smallest network that contains the client; that of an exempt network comes first. Of an address that is
 * counted as another one, only itself can be exempt, and the lower of the two limits holds.
 */
function createClientLimits(exempt: readonly string[], overrides: readonly LimitOverride[]) {
  const exemptNetworks = new NetworkMap(exempt.map((text) => [cidrOf(text), exempted] as const));
  const limits = clientLimits(overrides);
  if (exemptNetworks.size + limits.size === 0) return () => undefined;
  const known = new Map<string, number | undefined>();
  return ({ client, counterKey: { literal } }: LimitedClient): number | undefined => {
    if (literal !== null) {
      const asItStands = { network: addressOfKey(literal), prefixBits: 128 };
      return exemptNetworks.get(asItStands) ?? lower(limits.get(cidrOf(client)), limits.get(asItStands));
    }
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

/**
 * Returns a function that finds the limit of an address by the rules and overrides about clients. It caches nothing, because
 * it is asked about clients that have left.
 */
export function createAddressLimits(policy: Policy, rules: RulesInForce): (key: CounterKey) => number {
  const overrides = clientLimits(policy.overrides);
  return (key) => {
    const ruled = rules.isEmpty ? undefined : rules.limitOf(policy, key, null);
    if (ruled !== undefined || overrides.size === 0) return ruled ?? policy.limit;
    return overrides.get({ network: addressOfKey(key), prefixBits: 128 }) ?? policy.limit;
  };
}

// Finds the policies that a request is about, by its path and its method. Reads both inclusively: a request that some
// backend may take for a matching one matches.

/** Returns one bit for each policy: 1 for the first, 2 for the second, and so on. With 32 policies it may be negative. */
export type PolicyMatcher = (request: ParsedRequest, head: RequestHead) => number;

export function createPolicyMatcher(policies: readonly Policy[], basePath: string): PolicyMatcher {
  const all = maskOf(policies, () => true);
  const ofPaths = maskOf(policies, ({ match }) => match.paths.length > 0);
  if (policies.every(({ match }) => match.paths.length + match.methods.length === 0)) return () => all;

  const patterns = new PathPatterns(
    policies.flatMap(({ match }, i) => match.paths.map((path) => ({ path, mask: 1 << i }))),
    basePath,
  );
  const methods = new MethodMatcher(policies.map(({ match }) => match));
  return ({ target }, head) => {
    const mask = methods.possibly(head, target);
    if ((mask & ofPaths) === 0 || target === undefined) return mask;
    return mask & (~ofPaths | patterns.match(target.path));
  };
}

/** Returns the set of those that are in it. */
export function maskOf<T>(list: readonly T[], isIn: (one: T) => boolean): number {
  return list.reduce((mask, one, i) => (isIn(one) ? mask | (1 << i) : mask), 0);
}
