// Parses hosts, networks, URLs and paths. Only text that every parser reads in the same way is accepted, so that the
// gateway, the upstream and a person cannot disagree about what a value means.
import { type Cidr, parseCidr, parseIpAddress } from "../core/ip-address.ts";
import { splitAddress } from "../core/upstream.ts";

/** A host to listen on: an address without brackets, or a name. */
export function parseHost(text: string): string | undefined {
  if (text.includes("%")) return undefined;
  if (parseIpAddress(text) !== undefined) return text;
  if (text.length > 253) return undefined;
  const labels = text.split(".");
  const isName = labels.every((label) => /^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$/i.test(label));
  // A last label of digits alone is a mistyped address, such as 127.0.0.256 or 8080.
  return isName && !/^[0-9]+$/.test(labels.at(-1) ?? "") ? text : undefined;
}

/** The same text for hosts that are the same. */
export function canonicalHost(host: string): string {
  return parseIpAddress(host)?.join(":") ?? host.toLowerCase();
}

export function isLoopback(host: string): boolean {
  return ["localhost", canonicalHost("::1")].includes(canonicalHost(host)) || /^127\.[\d.]+$/.test(host);
}

export function parseNetwork(text: string): string | undefined {
  return parseCidr(text) === undefined ? undefined : text;
}

/** Of a text that `parseNetwork` has accepted. */
export function networkOf(text: string): Cidr {
  const cidr = parseCidr(text);
  if (cidr === undefined) throw new Error("a setting is neither an address nor a network");
  return cidr;
}

/** An http or https URL, unchanged. */
export function parseUpstreamUrl(text: string): string | undefined {
  // The parser of the URL standard repairs blanks, backslashes and missing slashes. Such text is refused instead.
  if (!/^https?:\/\/[^\s\\/@?#]+(\/[^\s\\?#]*)?$/i.test(text)) return undefined;
  return URL.canParse(text) ? text : undefined;
}

/** An origin of web pages as browsers send it: in lower case, without the port that the scheme implies. */
export function parseOrigin(text: string): string | undefined {
  const [, authority = ""] = new RegExp(originPattern).exec(text) ?? [];
  return parseUpstreamAddress(authority) !== undefined && URL.canParse(text) ? new URL(text).origin : undefined;
}

/** Without a wildcard: a page of any name below a domain could then be one that somebody else has put there. */
export const originPattern = "^[hH][tT][tT][pP][sS]?://([^\\s\\\\/@?#*]+)$";

/** `host` or `host:port`, with an IPv6 address in brackets; unchanged. */
export function parseUpstreamAddress(text: string): string | undefined {
  const { host, port } = splitAddress(text);
  if (parseHost(host) === undefined || (host.includes(":") && !text.startsWith("["))) return undefined;
  if (text.startsWith("[") && !host.includes(":")) return undefined;
  return port === null || (port >= 1 && port <= 65535) ? text : undefined;
}

export const storeUrlPattern = "^[rR][eE][dD][iI][sS]{1,2}://([^\\s\\\\/@?#]+)(/([0-9]{1,5})?)?$";

/** A redis or rediss URL, unchanged: host, port and number of the database, without user and password. */
export function parseStoreUrl(text: string): string | undefined {
  const [, authority = ""] = new RegExp(storeUrlPattern).exec(text) ?? [];
  return parseUpstreamAddress(authority) === undefined ? undefined : text;
}

// Characters that are read in one way only (RFC 3986's pchar without percent-encoding and `;`).
const segment = "[A-Za-z0-9._~!$&'()*+,=:@-]+";

export const routePattern = `^/(${segment}/)*$`;
export const basePathPattern = `^/(${segment}/)*(${segment})?$`;

/** A prefix that begins and ends with a slash. */
export function parseRoute(text: string): string | undefined {
  return new RegExp(routePattern).test(text) && !hasDotSegment(text) ? text : undefined;
}

/** Removes a slash at the end, except from "/" itself. */
export function parseBasePath(text: string): string | undefined {
  if (!new RegExp(basePathPattern).test(text) || hasDotSegment(text)) return undefined;
  return text.length > 1 && text.endsWith("/") ? text.slice(0, -1) : text;
}

function hasDotSegment(path: string): boolean {
  return path.split("/").some((part) => part === "." || part === "..");
}
