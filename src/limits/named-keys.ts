// Finds the keys of the counters by a name: which keys each policy has for a client, a token, a subject or a hash. What a name
// says is put into a request that has nothing else, and the key and the limit are read as those of any request. Some keys cannot
// be found so, because they need more than the name says; then the answer says why.
import type { Identity, ListedTokens } from "../core/authentication.ts";
import { addressKey, type CounterKey, keyOfHex } from "../core/counter-key.ts";
import { clientKey, isIpv4, parseCidr } from "../core/ip-address.ts";
import type { CountedRequest } from "../core/limiter.ts";
import { toldMethods } from "../core/method.ts";
import { type KeyPart, saysWho } from "../core/policy.ts";
import { type ParsedRequest, pendingVerdict } from "../core/request-head.ts";
import type { ForgivenKey } from "../core/rules.ts";
import { limitOf, type PolicyRow } from "./policies.ts";
import { isByAddress, noHead } from "./request-keys.ts";

/** What the keys of a name depend on besides the policies. */
export interface NameContext {
  /** The bits that identify an IPv6 client. */
  readonly ipv6Prefix: number;
  /** Null: there is no list. */
  readonly listed: ListedTokens | null;
  readonly routes: readonly string[];
}

export interface NamedKey {
  readonly key: CounterKey;
  /** The client that is counted in place of the key if there is no room for it; null: the name does not say. */
  readonly client: CounterKey | null;
  /** 0: the client is exempt. */
  readonly limit: number;
  /** Of a key with such a part; else null. */
  readonly method: string | null;
  readonly route: string | null;
}

/** The keys that one policy has for a name. */
interface KeysOfName {
  readonly keys: readonly NamedKey[];
  /** Which requests of that name have other keys, and why; null: there are none. */
  readonly gap: string | null;
}

/** A policy with more keys than these for a name is left out. */
const maxKeys = 256;

type KeyOwner = Pick<PolicyRow, "policy" | "readKey" | "readLimit" | "runtimeRules">;
type FindKeys = (row: KeyOwner) => KeysOfName;

/** Returns null for a name that is none: no address, several clients, no hash. */
export function createKeyFinder(name: ForgivenKey, context: NameContext): FindKeys | null {
  switch (name.kind) {
    case "client":
      return findByClient(name.value, context);
    case "token":
    case "subject":
      return findByIdentity(name.kind, name.value, context);
    case "key":
      return findByHash(name.value);
  }
}

function findByClient(text: string, context: NameContext): FindKeys | null {
  const cidr = parseCidr(text);
  const { ipv6Prefix } = context;
  // A network is one client if requests are grouped by it or by a wider one. IPv4 addresses are not grouped.
  if (cidr === undefined || cidr.prefixBits < (isIpv4(cidr.network) ? 128 : ipv6Prefix)) return null;
  const client = clientKey(cidr.network, ipv6Prefix);
  const counterKey = addressKey(cidr.network, ipv6Prefix);
  return (row) => {
    const kinds = new Set(row.policy.key.map(({ kind }) => kind));
    const others = [...kinds].filter((kind) => saysWho(kind) && kind !== "client");
    if (!kinds.has("client") && others.length === 0) return none(sharedByAll);
    const parsed = { ...pendingVerdict.parsed, client, counterKey };
    // The client stands in for what a request lacks.
    const gap = others.length === 0 ? null : `requests with a ${others.join(" or ")} have keys of their own`;
    return keysOf(row, [{ parsed, head: noHead, identity: null, client: counterKey }], context, gap);
  };
}

function findByIdentity(kind: "token" | "subject", value: string, context: NameContext): FindKeys {
  const listed = [...(context.listed?.identities() ?? [])].filter(
    (identity) => (kind === "token" ? identity.tokenName : identity.subject) === value,
  );
  const unlisted: Identity[] = kind === "subject" && listed.length === 0 ? [subjectAlone(value)] : [];
  return (row) => keysOfIdentities(row, [...listed, ...unlisted], context);
}

/** Returns the keys of requests with one of these identities. */
export function keysOfIdentities(row: KeyOwner, identities: readonly Identity[], context: NameContext): KeysOfName {
  const { key } = row.policy;
  if (!key.some((part) => part.kind === "token" || part.kind === "subject")) {
    return none("its key has neither a token nor a subject");
  }
  if (identities.length === 0) return none("no listed token has this name");
  const unknown = key.filter((part) => identities.some((identity) => !isKnownOf(part, identity)));
  if (unknown.length > 0) return none(`its key also needs the ${unknown.map(({ kind }) => kind).join(" and the ")}`);
  const requests = identities.map((identity) => ({ parsed: nobody, head: noHead, identity, client: null }));
  return keysOf(row, requests, context, null);
}

/** The hash may be that of any policy whose keys are hashes. */
function findByHash(text: string): FindKeys | null {
  const key = keyOfHex(text);
  if (key === null) return null;
  return ({ policy }) => {
    if (isByAddress(policy)) return none("its keys are addresses");
    return { keys: [{ key, client: null, limit: policy.limit, method: null, route: null }], gap: null };
  };
}

interface NamedRequest extends CountedRequest {
  readonly client: CounterKey | null;
}

function keysOf(
  row: KeyOwner,
  requests: readonly NamedRequest[],
  { routes }: NameContext,
  gap: string | null,
): KeysOfName {
  const keys = keysOfRequests(row, requests, routes, maxKeys);
  return keys === null ? none(`it has more than ${maxKeys} keys for it`) : { keys, gap };
}

/** Returns the keys of requests; null if there are more than `most`. */
export function keysOfRequests(
  row: KeyOwner,
  requests: readonly NamedRequest[],
  routes: readonly string[],
  most: number,
): readonly NamedKey[] | null {
  const { policy, readKey } = row;
  const has = (kind: KeyPart["kind"]): boolean => policy.key.some((part) => part.kind === kind);
  const methods = has("method") ? toldMethods : [null];
  const ofRoutes = has("route") ? routes : [null];
  if (requests.length * methods.length * ofRoutes.length > most) return null;
  return requests.flatMap(({ parsed, head, identity, client }) =>
    methods.flatMap((method) =>
      ofRoutes.map((route): NamedKey => {
        const request = { ...parsed, route };
        const asked = method === null ? head : { ...head, method };
        const limit = limitOf(row, request, asked, identity);
        return { key: readKey(request, asked, identity), client, limit, method, route };
      }),
    ),
  );
}

const sharedByAll = "it counts all clients together";

function none(gap: string): KeysOfName {
  return { keys: [], gap };
}

function isKnownOf(part: KeyPart, { tokenDigest, subject, claims }: Identity): boolean {
  switch (part.kind) {
    case "token":
      return tokenDigest !== "";
    case "subject":
      return subject !== null;
    case "claim":
      return claims.has(part.name);
    case "method":
    case "route":
      return true;
    case "client":
    case "header":
      return false;
  }
}

/** No request that has its identity is known to have another client. */
const nobody: ParsedRequest = { ...pendingVerdict.parsed, client: "::" };

function subjectAlone(subject: string): Identity {
  return { tokenDigest: "", tokenName: null, subject, scopes: [], endsMs: null, claims: new Map() };
}
