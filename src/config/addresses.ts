// Hosts, addresses and networks: which text is accepted, and what it means. Only text that every parser reads in the same
// way is accepted, so that the gateway, the upstream and a person cannot disagree about what a value means.
import { type Cidr, canonicalHost, isIpv4, parseCidr, parseIpAddress } from "../core/ip-address.ts";
import { splitAddress } from "../core/upstream.ts";

/** A host to listen on: an address without brackets, or a name, which may end in a dot: then no search domain is tried. */
export function parseHost(text: string): string | undefined {
  if (text.includes("%")) return undefined;
  if (parseIpAddress(text) !== undefined) return text;
  if (text.length > 253) return undefined;
  const labels = text.replace(/\.$/, "").split(".");
  const isName = labels.every((label) => /^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$/i.test(label));
  // A last label of digits alone is a mistyped address, such as 127.0.0.256 or 8080.
  return isName && !/^[0-9]+$/.test(labels.at(-1) ?? "") ? text : undefined;
}

export function isLoopback(host: string): boolean {
  return ["localhost", "::1"].includes(canonicalHost(host)) || /^127\.[\d.]+$/.test(host);
}

/** `host` or `host:port`, with an IPv6 address in brackets; unchanged. */
export function parseAddress(text: string): string | undefined {
  const { host, port } = splitAddress(text);
  if (parseHost(host) === undefined || (host.includes(":") && !text.startsWith("["))) return undefined;
  if (text.startsWith("[") && !host.includes(":")) return undefined;
  return port === null || (port >= 1 && port <= 65535) ? text : undefined;
}

export function parseNetwork(text: string): string | undefined {
  return parseCidr(text) === undefined ? undefined : text;
}

/** Whether the network is only a part of what counts as one client. */
export function isNarrower({ network, prefixBits }: Cidr, ipv6Prefix: number): boolean {
  return !isIpv4(network) && prefixBits > ipv6Prefix;
}

/** What is expected in place of a narrower network. */
export function wideEnough(ipv6Prefix: number): string {
  return (
    `at most /${ipv6Prefix}, because clientAddress.ipv6Prefix makes it one client; ` +
    "name the whole network, or raise clientAddress.ipv6Prefix"
  );
}
