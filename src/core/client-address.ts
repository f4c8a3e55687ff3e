// Finds the client, whose quota is charged: the peer, or, if the peer is a trusted proxy, the last address in the
// forwarding header that is not a trusted proxy. The header is read from the right, because only the entries that
// trusted proxies appended can be believed. The headers of an untrusted peer are ignored.

import { type CounterKey, countedKey } from "./counter-key.ts";
import { type HeaderList, isNamed, trimBlanks } from "./headers.ts";
import { cidrOf, clientKey, countedAs, formatIpAddress, type IpAddress, parseIpAddress } from "./ip-address.ts";
import { NetworkSet } from "./network-set.ts";

/** The header that trusted proxies write; the other is ignored, because they may forward a client's own. */
export type ForwardingHeader = "x-forwarded-for" | "forwarded";

export interface ClientAddressRules {
  readonly header: ForwardingHeader;
  readonly trustedProxies: NetworkSet;
  /** The bits that identify an IPv6 client, 1 to 128. */
  readonly ipv6Prefix: number;
}

/** Who is charged. */
export interface Client {
  /** The address or network as a text. */
  readonly key: string;
  /** Made once for a peer, so that what a table notes in it serves all requests of the connection. */
  readonly counterKey: CounterKey;
}

/** `key` and `counterKey` are those of the peer as a client. */
export interface Peer extends Client {
  readonly address: IpAddress;
  /** Canonical spelling, without port or zone. */
  readonly text: string;
  readonly isTrusted: boolean;
  /** The peer is in the gateway's own network and not trusted: perhaps a proxy that the configuration does not list. */
  readonly mayBeProxy: boolean;
  /** The rules under which it was read. */
  readonly rules: ClientAddressRules;
}

/** Counts the connections of each peer, over all threads. */
export interface PeerConnections {
  /** Returns false, and counts nothing, if the peer has `max` connections. */
  enter(peer: Peer, max: number): boolean;
  leave(peer: Peer): void;
}

/** Parses the address of a socket. A socket that is closed has none, which counts as `::`. */
export function readPeer(remoteAddress: string | undefined, rules: ClientAddressRules): Peer {
  return peerAt(parseIpAddress(remoteAddress ?? "::") ?? [0, 0, 0, 0, 0, 0, 0, 0], rules);
}

/** Returns the peer with this address. */
export function peerAt(address: IpAddress, rules: ClientAddressRules): Peer {
  return withTrust(address, formatIpAddress(address), rules);
}

/**
 * Returns the peer of a connection for a request under `rules`. A proxy that a reload has removed from the trusted ones
 * is not trusted any more, however old its connections are.
 */
export function peerUnder(rules: ClientAddressRules, peer: Peer): Peer {
  return rules === peer.rules ? peer : withTrust(peer.address, peer.text, rules);
}

function withTrust(address: IpAddress, text: string, rules: ClientAddressRules): Peer {
  const isTrusted = rules.trustedProxies.has(address);
  const mayBeProxy = !isTrusted && ownNetworks.has(address);
  return { address, text, isTrusted, mayBeProxy, ...clientAt(address, rules), rules };
}

/** Private networks, which nobody reaches from the internet (RFC 1918, 6598, 3927, 4193, 4291). */
const privates = "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 169.254.0.0/16 fc00::/7 fe80::/10";
/** These, and loopback. */
export const ownNetworks = new NetworkSet(`${privates} 127.0.0.0/8 ::1`.split(" ").map(cidrOf));

/**
 * Returns the client to charge. It is the peer itself unless a trusted proxy names another address. `isUnread`: the proxy
 * names one, in a form that is no address, so that many clients may be charged as one. `ignored`: the address that a peer
 * names which may be a proxy; else null.
 */
export function readClient(peer: Peer, rawHeaders: HeaderList, rules: ClientAddressRules) {
  if (!peer.isTrusted && !peer.mayBeProxy) return { client: peer, isUnread: false, ignored: null };
  const { address, isUnread } = lastUntrusted(peer.address, rawHeaders, rules);
  const named = address === peer.address ? null : address;
  if (!peer.isTrusted) return { client: peer, isUnread: false, ignored: named };
  return { client: named === null ? peer : clientAt(named, rules), isUnread, ignored: null };
}

function clientAt(address: IpAddress, { ipv6Prefix }: ClientAddressRules): Client {
  const counted = countedAs(address);
  return { key: clientKey(counted, ipv6Prefix), counterKey: countedKey(address, ipv6Prefix, counted) };
}

/**
 * Several headers of one name are one list (RFC 9110, 5.3), so the search begins at the end of the last header. It ends
 * after `maxElements`: a client that sends more may be charged as its proxy, but never as another client.
 */
function lastUntrusted(peer: IpAddress, rawHeaders: HeaderList, rules: ClientAddressRules) {
  const read = rules.header === "forwarded" ? forwardedFor : xForwardedFor;
  const elements = { left: maxElements };
  let last = peer;
  for (let i = rawHeaders.length - 2; i >= 0; i -= 2) {
    if (!isNamed(rawHeaders[i] ?? "", rules.header)) continue;
    for (const address of read(rawHeaders[i + 1] ?? "", elements)) {
      // No entry left of an unreadable one can be attributed to a proxy.
      if (address === undefined) return { address: last, isUnread: true };
      if (!rules.trustedProxies.has(address)) return { address, isUnread: false };
      last = address;
    }
  }
  return { address: last, isUnread: false };
}

/**
 * The number of elements that may still be read, in all headers of a request together. Each costs a search among the
 * trusted networks.
 */
interface ElementBudget {
  left: number;
}

/** A real chain of proxies has fewer than ten. Empty elements count too (RFC 9110, 5.6.1.2). */
const maxElements = 100;

/** Yields the addresses of one header from the right; undefined for an entry that is not an address. */
function* xForwardedFor(line: string, elements: ElementBudget): Generator<IpAddress | undefined> {
  let end = line.length;
  while (end >= 0 && elements.left > 0) {
    elements.left -= 1;
    const comma = end === 0 ? -1 : line.lastIndexOf(",", end - 1);
    const entry = trimBlanks(line, comma + 1, end);
    end = comma;
    if (entry !== "") yield parseForwardedAddress(entry); // empty elements are ignored (RFC 9110, 5.6.1)
  }
}

/**
 * Parses an address with or without a port: `1.2.3.4:80`, `[2001:db8::1]:80`, `[2001:db8::1]`, `2001:db8::1`. Behind an IPv6
 * address without brackets, only what leaves no other reading is a port: `2001:db8::7:50718` has one, and
 * `2001:db8::7:443` is an address (RFC 5952, 6).
 */
export function parseForwardedAddress(entry: string): IpAddress | undefined {
  const whole = parseIpAddress(entry);
  if (whole !== undefined) return whole;
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(entry);
  if (bracketed !== null) return parseIpAddress(bracketed[1] ?? "");
  const portAt = entry.lastIndexOf(":") + 1;
  const isPort = /^\d{1,5}$/.test(entry.slice(portAt)) && Number(entry.slice(portAt)) <= 65_535;
  return isPort ? parseIpAddress(entry.slice(0, portAt - 1)) : undefined;
}

/**
 * Yields the addresses of the `for` parameters of one Forwarded header (RFC 7239), the last element first. A proxy appends a
 * whole element after a comma, so its element is parsed independently of what is left of it: a quotation mark that a client
 * did not close has no effect. Ends with undefined at the first element without an address: `unknown`, an obfuscated
 * identifier, no `for`, or a violation of the grammar. Empty elements are ignored (RFC 9110, 5.6.1).
 */
export function* forwardedFor(
  line: string,
  elements: ElementBudget = { left: maxElements },
): Generator<IpAddress | undefined> {
  let end = line.length;
  while (end >= 0 && elements.left > 0) {
    elements.left -= 1;
    const start = elementStart(line, end);
    const element = trimBlanks(line.slice(start, end));
    end = start - 1;
    if (element === "") continue;
    const address = readElement(element);
    yield address;
    if (address === undefined) return;
  }
}

/** Returns where the element that ends before `end` begins: after the nearest comma outside of quoted strings. */
function elementStart(line: string, end: number): number {
  for (let i = end - 1; i >= 0; i -= 1) {
    if (line[i] === ",") return i + 1;
    // The nearest unescaped mark on the left opens the string, because a mark inside it is escaped by a backslash.
    if (line[i] === '"') i = openingMark(line, i);
  }
  return 0;
}

/** Returns -1 if no mark opens the string: the rest of the header is then one element that violates the grammar. */
function openingMark(line: string, closing: number): number {
  for (let i = line.lastIndexOf('"', closing - 1); i > 0; i = line.lastIndexOf('"', i - 1)) {
    let backslashes = 0;
    while (line[i - 1 - backslashes] === "\\") backslashes += 1;
    if (backslashes % 2 === 0) return i;
  }
  return -1;
}

// RFC 9110, 5.6.2 and 5.6.4. RFC 7239 has no blanks around the semicolon, and wants quotation marks around `:`, `[` and `]`
// (`host=api.example:443`), but some proxies write the first and leave out the second. None of these ends a value.
const pair =
  /[ \t]*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:([!#$%&'*+.^_`|~0-9A-Za-z:[\]-]+)|"((?:[\t !#-[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*)")[ \t]*)?(?:;|$)/y;

function readElement(element: string): IpAddress | undefined {
  const names = new Set<string>();
  let node: string | undefined;
  pair.lastIndex = 0;
  while (pair.lastIndex < element.length) {
    const match = pair.exec(element);
    if (match === null) return undefined;
    const name = match[1]?.toLowerCase();
    if (name === undefined) continue;
    // Of a repeated parameter, the gateway and the upstream could each use another value.
    if (names.has(name)) return undefined;
    names.add(name);
    if (name === "for") node = match[2] ?? match[3]?.replace(/\\(.)/g, "$1");
  }
  // RFC 7239, 6: an IPv6 address is in brackets, which some proxies leave out; a port may follow, which may be obfuscated.
  return node === undefined ? undefined : parseForwardedAddress(node.replace(/:_[A-Za-z0-9._-]+$/, ""));
}
