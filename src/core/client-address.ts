// Who is charged: the peer, or, if the peer is a trusted proxy, the last address of the forwarding header that is not
// one. Read from the right, because everything further left was written by someone nobody vouches for. Headers from an
// untrusted peer are never looked at.
import { trimBlanks } from "./blanks.ts";
import { forwardedFor } from "./forwarded.ts";
import type { HeaderList } from "./header-list.ts";
import { type Cidr, clientKey, formatIpAddress, type IpAddress, isWithin, parseIpAddress } from "./ip-address.ts";

/** The one that trusted proxies write; the other is never looked at, since they may pass a client's own on. */
export type ForwardingHeader = "x-forwarded-for" | "forwarded";

export interface ClientAddressRules {
  readonly header: ForwardingHeader;
  readonly trustedProxies: readonly Cidr[];
  /** 1 to 128: IPv6 clients are grouped by this many bits. */
  readonly ipv6Prefix: number;
}

export interface Peer {
  readonly address: IpAddress;
  /** Canonical spelling, without port or zone. */
  readonly text: string;
  readonly isTrusted: boolean;
  /** What the peer itself would be charged under. */
  readonly key: string;
}

/** Reads the socket's own address, once a connection. A socket that is already gone has none: it becomes `::`. */
export function readPeer(remoteAddress: string | undefined, rules: ClientAddressRules): Peer {
  const address = parseIpAddress(remoteAddress ?? "::") ?? [0, 0, 0, 0, 0, 0, 0, 0];
  return {
    address,
    text: formatIpAddress(address),
    isTrusted: isTrusted(address, rules),
    key: clientKey(address, rules.ipv6Prefix),
  };
}

/** The key to charge. */
export function readClient(peer: Peer, rawHeaders: HeaderList, rules: ClientAddressRules): string {
  if (!peer.isTrusted) return peer.key;
  return clientKey(lastUntrusted(peer.address, rawHeaders, rules), rules.ipv6Prefix);
}

/** Several lines are one list (RFC 9110, 5.3), so the walk begins at the end of the last line. */
function lastUntrusted(peer: IpAddress, rawHeaders: HeaderList, rules: ClientAddressRules): IpAddress {
  const read = rules.header === "forwarded" ? forwardedFor : xForwardedFor;
  let last = peer;
  for (let i = rawHeaders.length - 2; i >= 0; i -= 2) {
    if (rawHeaders[i]?.toLowerCase() !== rules.header) continue;
    for (const address of read(rawHeaders[i + 1] ?? "")) {
      // What cannot be read ends the walk: left of it anything may have been written.
      if (address === undefined) return last;
      if (!isTrusted(address, rules)) return address;
      last = address;
    }
  }
  return last;
}

/** The addresses of one line, from the right; undefined for an entry that is none. */
function* xForwardedFor(line: string): Generator<IpAddress | undefined> {
  const entries = line.split(",");
  for (let i = entries.length - 1; i >= 0; i -= 1) {
    const entry = trimBlanks(entries[i] ?? "");
    if (entry !== "") yield parseForwardedAddress(entry); // an empty element is no element (RFC 9110, 5.6.1)
  }
}

/** An address with or without a port: `1.2.3.4:80`, `[2001:db8::1]:80`, `[2001:db8::1]`, `2001:db8::1`. */
export function parseForwardedAddress(entry: string): IpAddress | undefined {
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(entry);
  if (bracketed !== null) return bracketed[1]?.includes(":") ? parseIpAddress(bracketed[1]) : undefined;
  const dotted = /^([\d.]+):\d{1,5}$/.exec(entry);
  return parseIpAddress(dotted?.[1] ?? entry);
}

function isTrusted(address: IpAddress, rules: ClientAddressRules): boolean {
  return rules.trustedProxies.some((cidr) => isWithin(address, cidr));
}
