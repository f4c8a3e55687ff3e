// What the HTTP parser lets through and a gateway must not: each of these has let a request mean one thing to a proxy
// and another to the server behind it. One pass over the fields as they came.
import type { HeaderList } from "./header-list.ts";
import { type LocalReply, localReplies } from "./local-reply.ts";
import { isValidHost } from "./request-target.ts";

export interface MessageFacts {
  readonly method: string;
  readonly rawHeaders: HeaderList;
  readonly target: string;
  readonly httpVersion: string;
  readonly endsWithHead?: boolean;
}

/**
 * CONNECT asks for a tunnel, and TRACE for the fields that proxies added, as a client may not see them (RFC 9110,
 * 9.3.8).
 */
const refusedMethods: ReadonlySet<string> = new Set(["CONNECT", "TRACE"]);

const versions: ReadonlySet<string> = new Set(["1.0", "1.1", "2"]);

/** RFC 9112, 3 recommends at least 8000 octets for a request line. */
const maxTargetBytes = 8192;

export interface MessageReading {
  readonly problem: LocalReply | null;
  /** What is wrong with it besides its target's length. */
  readonly flaw: LocalReply | null;
  readonly host: string;
  /** Bytes of the body, null if its end is told by its framing, 0 if there is none. */
  readonly contentLength: number | null;
  readonly expectsContinue: boolean;
  /** It asks to leave HTTP, whether or not it may; one with a body does not, to the parser. */
  readonly asksToLeave: boolean;
  /** An OPTIONS that has come as far as it may (RFC 9110, 7.6.2): whoever holds it answers it. */
  readonly endsHere: boolean;
}

export function readMessage(facts: MessageFacts): MessageReading {
  const { method, rawHeaders, target, httpVersion } = facts;
  const seen: Seen = {
    hosts: none,
    lengths: none,
    encodings: none,
    expectations: none,
    hops: none,
    hasBadName: false,
    hasUpgrade: false,
    namesUpgrade: false,
    speaksOfConnection: false,
  };
  for (let i = 0; i < rawHeaders.length; i += 2) note(seen, rawHeaders[i] ?? "", rawHeaders[i + 1] ?? "");
  const contentLength = readLength(seen, facts);
  const flaw = findProblem(seen, facts);
  return {
    problem: target.length > maxTargetBytes ? localReplies.targetTooLong : flaw,
    flaw,
    host: seen.hosts[0] ?? "",
    contentLength,
    // HTTP/1.0 knows no 100 (RFC 9110, 10.1.1).
    expectsContinue: seen.expectations.length > 0 && httpVersion !== "1.0",
    asksToLeave: seen.hasUpgrade && seen.namesUpgrade && contentLength === 0,
    endsHere: method === "OPTIONS" && seen.hops.some((hops) => /^0+$/.test(hops)),
  };
}

/** Most requests have most of these fields not at all. */
const none: readonly string[] = [];

interface Seen {
  hosts: readonly string[];
  lengths: readonly string[];
  encodings: readonly string[];
  expectations: readonly string[];
  hops: readonly string[];
  hasBadName: boolean;
  hasUpgrade: boolean;
  namesUpgrade: boolean;
  /** Has what HTTP/2 does not know. */
  speaksOfConnection: boolean;
}

function readLength({ encodings, lengths }: Seen, { httpVersion, endsWithHead = false }: MessageFacts): number | null {
  if (httpVersion !== "2") return encodings.length > 0 ? null : Number(lengths[0] ?? 0);
  if (endsWithHead) return 0;
  return lengths[0] === undefined ? null : Number(lengths[0]);
}

function note(seen: Seen, name: string, value: string): void {
  // Most servers behind which CGI's names still live read `_` and `-` as one (RFC 9110, 17.10).
  if (name.includes("_")) seen.hasBadName = true;
  const lower = name.toLowerCase();
  switch (lower) {
    case "host":
      seen.hosts = [...seen.hosts, value];
      break;
    case "content-length":
      seen.lengths = [...seen.lengths, value];
      break;
    case "transfer-encoding":
      seen.encodings = [...seen.encodings, value];
      seen.speaksOfConnection = true;
      break;
    case "upgrade":
      seen.hasUpgrade = true;
      seen.speaksOfConnection = true;
      break;
    case "keep-alive":
    case "proxy-connection":
      seen.speaksOfConnection = true;
      break;
    case "te":
      if (value !== "trailers") seen.speaksOfConnection = true;
      break;
    case "connection":
      seen.speaksOfConnection = true;
      if (/(?:^|,)[ \t]*upgrade[ \t]*(?:,|$)/i.test(value)) seen.namesUpgrade = true;
      break;
    case "expect":
      seen.expectations = [...seen.expectations, value];
      break;
    case "max-forwards":
      seen.hops = [...seen.hops, value];
      break;
    default:
      if (disguisedName.test(lower)) seen.hasBadName = true;
  }
}

/**
 * A name that a few servers read as that of a field which the gateway sets or checks: PHP reads `.` as `-`, old Apache
 * and lighttpd so read all that is no letter and no digit. Other names may hold such characters, since nothing depends
 * on who wrote those fields.
 */
const disguisedName =
  /^(?!x-forwarded-|x-real-ip|x-request-id)(?:x[^a-z0-9](?:forwarded[^a-z0-9]|real[^a-z0-9]ip$|request[^a-z0-9]id$)|content[^a-z0-9]length$|transfer[^a-z0-9]encoding$)/;

function findProblem(seen: Seen, facts: MessageFacts): LocalReply | null {
  const { hosts, lengths, encodings, expectations } = seen;
  const { method, httpVersion } = facts;
  // The parser lets HTTP/0.9 and HTTP/2.0 through as versions of a text that is neither.
  if (!versions.has(httpVersion)) return localReplies.malformed;
  if (httpVersion === "2" && isMalformedHttp2(seen, facts)) return localReplies.malformed;
  if (hosts.length !== 1 || !isValidHost(hosts[0] ?? "")) return localReplies.badHost;
  if (seen.hasBadName) return localReplies.badFieldName;
  // RFC 9112, 6.1 and 6.3: a length beside an encoding, or an encoding in HTTP/1.0, is how requests are smuggled.
  if (encodings.length > 0 && (lengths.length > 0 || httpVersion === "1.0")) return localReplies.malformed;
  if (lengths.length > 1 || (lengths[0] !== undefined && !/^\d{1,15}$/.test(lengths[0]))) return localReplies.malformed;
  if (encodings.length > 1 || (encodings[0] ?? "chunked").toLowerCase() !== "chunked")
    return localReplies.unsupportedEncoding;
  if (expectations.some((expectation) => expectation.toLowerCase() !== "100-continue"))
    return localReplies.unsupportedExpect;
  return refusedMethods.has(method) ? localReplies.unsupportedMethod : null;
}

/**
 * RFC 9113, 8.2.1 to 8.3.1: no value with a blank around it, no field of one connection, a path and nothing else as
 * target, no length that the framing denies. CONNECT has no path, and is refused as what it is.
 */
function isMalformedHttp2({ speaksOfConnection, lengths }: Seen, facts: MessageFacts): boolean {
  const { method, target, rawHeaders, endsWithHead = false } = facts;
  for (let i = 1; i < rawHeaders.length; i += 2) if (hasBlankAround(rawHeaders[i] ?? "")) return true;
  const hasPath = target.startsWith("/") || (target === "*" && method === "OPTIONS") || method === "CONNECT";
  return speaksOfConnection || !hasPath || (endsWithHead && Number(lengths[0] ?? 0) !== 0);
}

/** In HTTP/1.1 it is no part of the value, and in HTTP/2 it would be. */
export function hasBlankAround(value: string): boolean {
  return isBlank(value.charCodeAt(0)) || isBlank(value.charCodeAt(value.length - 1));
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}
