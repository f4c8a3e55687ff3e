// A limited request as a limiter gets it, without a socket.
import type { Identity } from "../../src/core/authentication.ts";
import { readPeer } from "../../src/core/client-address.ts";
import { addressKey, type CounterKey, countedKey } from "../../src/core/counter-key.ts";
import { cidrOf, parseCidr } from "../../src/core/ip-address.ts";
import type { AskedRequest, LimitedClient } from "../../src/core/limiter.ts";
import { readTarget } from "../../src/core/message-check.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import type { Decision } from "../../src/core/policy.ts";
import { type ParsedRequest, pendingVerdict, type RequestHead } from "../../src/core/request-head.ts";

interface LimitedRequest {
  readonly client?: string;
  readonly method?: string;
  readonly target?: string;
  readonly route?: string | null;
  readonly rawHeaders?: readonly string[];
}

export function limitedRequest(parts: LimitedRequest = {}): { request: ParsedRequest; head: RequestHead } {
  const { client = "192.0.2.1", method = "GET", target = "/v2/x", route = "/v2/", rawHeaders = [] } = parts;
  const peer = readPeer("192.0.2.1", {
    header: "x-forwarded-for",
    trustedProxies: new NetworkSet([]),
    ipv6Prefix: 64,
  });
  return {
    request: {
      ...pendingVerdict.parsed,
      client,
      counterKey: counterKeyOf(client),
      route,
      target: readTarget(target, method),
    },
    head: {
      peer,
      method,
      target,
      rawHeaders,
      httpVersion: "1.1",
    },
  };
}

/** What the pipeline asks about: at first, or in a later step. */
export function askedRequest(
  parsed: ParsedRequest,
  head: RequestHead,
  nowMs: number,
  identity: Identity | null = null,
  decision: Decision | null = null,
): AskedRequest {
  return { parsed, head, identity, decision, nowMs };
}

/** A client as a limiter shows its quota. */
export function clientOf(client: string): LimitedClient {
  return { client, counterKey: counterKeyOf(client) };
}

/** The key of a client whose text is an address or, for IPv6, a network. */
export function counterKeyOf(client: string): CounterKey {
  const cidr = parseCidr(client);
  if (cidr === undefined) throw new Error(`the test wrote ${client}`);
  return addressKey(cidr.network, cidr.prefixBits);
}

/** A request of a client whose address a translator has made of an IPv4 address. */
export function translatedRequest(ipv4: string): { request: ParsedRequest; head: RequestHead } {
  const { request, head } = limitedRequest({ client: ipv4 });
  const counterKey = countedKey(cidrOf(`64:ff9b::${ipv4}`).network, 64);
  return { request: { ...request, counterKey }, head };
}

export function identityOf(parts: Partial<Identity> = {}): Identity {
  return {
    tokenDigest: "0".repeat(64),
    tokenName: null,
    subject: null,
    scopes: [],
    endsMs: null,
    claims: new Map(),
    ...parts,
  };
}
