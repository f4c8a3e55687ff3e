// Finds flaws that the HTTP parser accepts and a gateway must refuse: with each of them, a request could mean one thing
// to a proxy and another to the server behind it. One pass over the headers. Parses the target (RFC 9112, 3.2) without
// changing a byte that is forwarded.
import { type BrokenRule, brokenRule } from "./broken-rule.ts";
import { type FieldNames, fixedFieldNames } from "./field-names.ts";
import { connectionLogin, type HeaderList, isBlank, nameFinder } from "./headers.ts";
import { badFieldName, type LocalReply, localReplies, malformedBy } from "./local-reply.ts";
import { knownMethods, refusedMethods } from "./method.ts";

/** Of HTTP/1, other versions than the first two are `other`, such as 0.9 and 2.0 in a request line, and are refused. */
export type HttpVersion = "1.0" | "1.1" | "2" | "other";

/** Returns the version of a message that the text names, of HTTP/1. */
export function readHttp1Version(text: string): HttpVersion {
  return text === "1.0" || text === "1.1" ? text : "other";
}

/** The request line and the headers. */
export interface RequestLines {
  readonly method: string;
  readonly rawHeaders: HeaderList;
  readonly target: string;
}

export interface MessageHead extends RequestLines {
  readonly httpVersion: HttpVersion;
  /** HTTP/2 only: the framing says that no body follows. */
  readonly endsWithHead?: boolean;
}

export interface MessageReading {
  /** Refuses what HTTP/1.1 could not carry, whatever its path is, as malformed bytes are refused. Null: it could. */
  readonly unparsable: LocalReply | null;
  readonly problem: LocalReply | null;
  /** Empty if there is none, which only HTTP/1.0 may leave out. */
  readonly host: string;
  /** Bytes of the body; null if the framing marks its end, 0 without a body. */
  readonly contentLength: number | null;
  readonly expectsContinue: boolean;
  /** It is an Upgrade to the parser, allowed or not. With a body it is not one. */
  readonly asksToUpgrade: boolean;
  /** It is an OPTIONS with Max-Forwards: 0, which the gateway must answer itself (RFC 9110, 7.6.2). */
  readonly isLastHop: boolean;
  /** Its Authorization may log in the upstream connection that carries it. */
  readonly logsInConnection: boolean;
  /** The only X-Request-Id, if it is short and of visible characters; else null. */
  readonly requestId: string | null;
}

export function readMessage(message: MessageHead, names: FieldNames = fixedFieldNames): MessageReading {
  const { method, rawHeaders, httpVersion } = message;
  const seen: Seen = {
    hosts: none,
    lengths: none,
    encodings: none,
    expectations: none,
    hops: none,
    ids: none,
    logsIn: false,
    badName: null,
    hasUpgrade: false,
    namesUpgrade: false,
    hasConnectionHeader: false,
  };
  for (let i = 0; i < rawHeaders.length; i += 2) note(seen, rawHeaders[i] ?? "", rawHeaders[i + 1] ?? "", names);
  const contentLength = readLength(seen, message);
  const unparsable = findUnparsable(seen, message);
  return {
    unparsable,
    problem: unparsable ?? findProblem(seen, message),
    host: seen.hosts[0] ?? "",
    contentLength,
    // HTTP/1.0 has no status 100 (RFC 9110, 10.1.1).
    expectsContinue: seen.expectations.length > 0 && httpVersion !== "1.0",
    asksToUpgrade: seen.hasUpgrade && seen.namesUpgrade && contentLength === 0,
    isLastHop: method === "OPTIONS" && seen.hops.some((hops) => /^0+$/.test(hops)),
    logsInConnection: seen.logsIn,
    requestId: readRequestId(seen.ids),
  };
}

/** `values`: of the X-Request-Id headers. Visible ASCII cannot break a line of the log or of a head. */
export function readRequestId(values: readonly string[]): string | null {
  const [id] = values;
  return id !== undefined && values.length === 1 && /^[!-~]{1,128}$/.test(id) ? id : null;
}

/** Shared, because most requests lack most of these headers. It stays empty. */
const none: string[] = [];

/** Adds to the list in place: a copy for each value would take quadratic time, as a check may have many headers. */
function added(values: string[], value: string): string[] {
  if (values === none) return [value];
  values.push(value);
  return values;
}

interface Seen {
  hosts: string[];
  lengths: string[];
  encodings: string[];
  expectations: string[];
  hops: string[];
  ids: string[];
  logsIn: boolean;
  badName: LocalReply | null;
  hasUpgrade: boolean;
  namesUpgrade: boolean;
  /** It has a header that HTTP/2 forbids. */
  hasConnectionHeader: boolean;
}

function readLength({ encodings, lengths }: Seen, { httpVersion, endsWithHead = false }: MessageHead): number | null {
  if (httpVersion !== "2") return encodings.length > 0 ? null : Number(lengths[0] ?? 0);
  if (endsWithHead) return 0;
  return lengths[0] === undefined ? null : Number(lengths[0]);
}

function note(seen: Seen, name: string, value: string, names: FieldNames): void {
  switch (specialName(name)) {
    case "host":
      seen.hosts = added(seen.hosts, value);
      break;
    case "content-length":
      seen.lengths = added(seen.lengths, value);
      break;
    case "transfer-encoding":
      seen.encodings = added(seen.encodings, value);
      seen.hasConnectionHeader = true;
      break;
    case "upgrade":
      seen.hasUpgrade = true;
      seen.hasConnectionHeader = true;
      break;
    case "keep-alive":
    case "proxy-connection":
      seen.hasConnectionHeader = true;
      break;
    case "te":
      if (value.toLowerCase() !== "trailers") seen.hasConnectionHeader = true;
      break;
    case "connection":
      seen.hasConnectionHeader = true;
      if (/(?:^|,)[ \t]*upgrade[ \t]*(?:,|$)/i.test(value)) seen.namesUpgrade = true;
      break;
    case "expect":
      seen.expectations = added(seen.expectations, value);
      break;
    case "authorization":
      // A bearer token may be long, so it is not searched.
      if (!value.startsWith("Bearer ") || value.includes(",")) seen.logsIn ||= connectionLogin.test(value);
      break;
    case "max-forwards":
      seen.hops = added(seen.hops, value);
      break;
    case "x-request-id":
      seen.ids = added(seen.ids, value);
      break;
    default: {
      const other = names.takenFor(name);
      if (other !== null) seen.badName ??= badFieldName(name, other);
    }
  }
}

/** Of headers that are checked. No length has more than two. */
const specialName = nameFinder([
  ...(["host", "content-length", "transfer-encoding", "upgrade", "keep-alive"] as const),
  ...(["proxy-connection", "te", "connection", "expect", "max-forwards", "x-request-id", "authorization"] as const),
]);

/** Finds what the reader of HTTP/1.1 refuses by itself, and the other protocols accept. */
function findUnparsable(seen: Seen, message: MessageHead): LocalReply | null {
  if (!knownMethods.has(message.method)) return localReplies.unsupportedMethod;
  const broken = message.httpVersion === "2" ? findBrokenHttp2(seen, message) : null;
  return broken === null ? null : malformedBy(broken);
}

function findProblem(seen: Seen, message: MessageHead): LocalReply | null {
  const { hosts, lengths, encodings, expectations } = seen;
  const { method, httpVersion } = message;
  // The parser accepts HTTP/0.9 and HTTP/2.0 in a request line of HTTP/1.
  if (httpVersion === "other") return malformedBy(brokenRule("a version other than HTTP/1.0 and HTTP/1.1", 1));
  if (!isHostValid(hosts, httpVersion)) return localReplies.badHost;
  if (seen.badName !== null) return seen.badName;
  // A length together with an encoding, or an encoding in HTTP/1.0, can smuggle a request (RFC 9112, 6.1 and 6.3).
  if (encodings.length > 0 && (lengths.length > 0 || httpVersion === "1.0"))
    return malformedBy(brokenRule("an encoding beside a length, or in HTTP/1.0", null, "Transfer-Encoding"));
  if (lengths.length > 1 || (lengths[0] !== undefined && !/^\d{1,15}$/.test(lengths[0])))
    return malformedBy(brokenRule("a second length, or one other than 1 to 15 digits", null, "Content-Length"));
  if (encodings.length > 1 || (encodings[0] ?? "chunked").toLowerCase() !== "chunked")
    return localReplies.unsupportedEncoding;
  if (expectations.some((expectation) => expectation.toLowerCase() !== "100-continue"))
    return localReplies.unsupportedExpect;
  return refusedMethods.has(method) ? localReplies.unsupportedMethod : null;
}

/** Only HTTP/1.0 may leave Host out (RFC 9112, 3.2); the upstream then gets its own name. */
function isHostValid(hosts: readonly string[], httpVersion: HttpVersion): boolean {
  if (hosts.length === 0) return httpVersion === "1.0";
  return hosts.length === 1 && isValidHost(hosts[0] ?? "");
}

/**
 * RFC 9113, 8.2.1 to 8.3.1 forbids blanks around a value, control bytes in it, headers about the connection, a target that
 * is no path of visible ASCII, and a length that contradicts the framing. CONNECT has no path and is refused by its method.
 */
function findBrokenHttp2({ hasConnectionHeader, lengths }: Seen, message: MessageHead): BrokenRule | null {
  const { method, target, rawHeaders, endsWithHead = false } = message;
  for (let i = 1; i < rawHeaders.length; i += 2) {
    const value = rawHeaders[i] ?? "";
    if (hasBlankAround(value) || controlByte.test(value))
      return brokenRule("a blank around a value, or a control character", null, rawHeaders[i - 1]);
  }
  const hasPath = target.startsWith("/") || (target === "*" && method === "OPTIONS") || method === "CONNECT";
  if (hasConnectionHeader) return brokenRule("a field about the connection");
  if (!hasPath || /[^\x21-\x7e]/.test(target)) return brokenRule("a :path that is no target");
  return endsWithHead && Number(lengths[0] ?? 0) !== 0 ? brokenRule("a length without a body") : null;
}

/** No value may have one in HTTP/1.1 (RFC 9110, 5.5), except for a tab. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control bytes
const controlByte = /[\0-\x08\x0a-\x1f\x7f]/;

/** In HTTP/1.1 such a blank is not part of the value, but in HTTP/2 it would be. */
export function hasBlankAround(value: string): boolean {
  return isBlank(value.charCodeAt(0)) || isBlank(value.charCodeAt(value.length - 1));
}

export interface RequestTarget {
  /** Path and query unchanged, without scheme and authority; "*" for the asterisk form. */
  readonly original: string;
  /** The text before the first `?`. */
  readonly path: string;
  /** The authority of the absolute form, which replaces Host (RFC 9112, 3.2.2); null in the other forms. */
  readonly authority: string | null;
}

/** Returns undefined for a form that the gateway does not accept, such as the authority form of CONNECT. */
export function readTarget(target: string, method: string): RequestTarget | undefined {
  if (target.startsWith("/")) return { original: target, path: pathOf(target), authority: null };
  if (target === "*") return method === "OPTIONS" ? { original: "*", path: "*", authority: null } : undefined;
  const match = /^https?:\/\/([^/?#]*)((?:[/?].*)?)$/is.exec(target);
  if (match === null) return undefined;
  const [, authority = "", rest = ""] = match;
  if (!isValidHost(authority)) return undefined;
  const original = rest.startsWith("/") ? rest : `/${rest}`;
  return { original, path: pathOf(original), authority };
}

function pathOf(target: string): string {
  const queryStart = target.indexOf("?");
  return queryStart === -1 ? target : target.slice(0, queryStart);
}

/** Returns whether it is a host with an optional port (RFC 3986, 3.2.2): no user, no list, no white space, not empty. */
export function isValidHost(host: string): boolean {
  const match = /^(?:\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9\-._~!$&'()*+;=]|%[0-9A-Fa-f]{2})+)(?::(\d{0,5}))?$/.exec(host);
  return match !== null && Number(match[1] ?? 0) <= 65_535;
}

export interface BasePaths {
  /** The prefix of the routes for clients: "/" or "/finance". */
  readonly own: string;
  /** The prefix of the routes at the upstream. */
  readonly upstream: string;
}

/** Replaces the base path and no other byte; null if the target does not begin with the same bytes. */
export function rebase(original: string, { own, upstream }: BasePaths): string | null {
  const prefix = upstream === "/" ? "" : upstream;
  if (own === "/") return prefix + original;
  if (!original.startsWith(own)) return null;
  const rest = original.slice(own.length);
  if (rest.startsWith("/")) return prefix + rest;
  return rest === "" || rest.startsWith("?") ? `${prefix}/${rest}` : null;
}
