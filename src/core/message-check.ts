// What the HTTP parser lets through and a gateway must not: each of these has let a request mean one thing to a proxy
// and another to the server behind it. One pass over the fields as they came.
import { type Problem, problems } from "./problem.ts";
import { isValidHost } from "./request-target.ts";

export interface MessageFacts {
  readonly method: string;
  readonly rawFields: readonly string[];
  readonly target: string;
  readonly httpVersion: string;
}

/**
 * CONNECT asks for a tunnel, and TRACE for the fields that proxies added, as a client may not see them (RFC 9110,
 * 9.3.8).
 */
const refusedMethods: ReadonlySet<string> = new Set(["CONNECT", "TRACE"]);

/** RFC 9112, 3 recommends at least 8000 octets for a request line. */
const maxTargetBytes = 8192;

export interface MessageReading {
  readonly problem: Problem | null;
  readonly host: string;
  /** Bytes of the body, null if it is chunked, 0 if there is none. */
  readonly contentLength: number | null;
  readonly expectsContinue: boolean;
  /** It asks to leave HTTP, whether or not it may; one with a body does not, to the parser. */
  readonly asksToLeave: boolean;
  /** An OPTIONS that has come as far as it may (RFC 9110, 7.6.2): whoever holds it answers it. */
  readonly endsHere: boolean;
}

export function readMessage({ method, rawFields, target, httpVersion }: MessageFacts): MessageReading {
  const seen: Seen = {
    hosts: [],
    lengths: [],
    encodings: [],
    expectations: [],
    hops: [],
    hasUnderscore: false,
    hasUpgrade: false,
    namesUpgrade: false,
  };
  for (let i = 0; i < rawFields.length; i += 2) note(seen, rawFields[i] ?? "", rawFields[i + 1] ?? "");
  const contentLength = seen.encodings.length > 0 ? null : Number(seen.lengths[0] ?? 0);
  return {
    problem: target.length > maxTargetBytes ? problems.targetTooLong : findProblem(seen, method, httpVersion),
    host: seen.hosts[0] ?? "",
    contentLength,
    // HTTP/1.0 knows no 100 (RFC 9110, 10.1.1).
    expectsContinue: seen.expectations.length > 0 && httpVersion !== "1.0",
    asksToLeave: seen.hasUpgrade && seen.namesUpgrade && contentLength === 0,
    endsHere: method === "OPTIONS" && seen.hops.some((hops) => /^0+$/.test(hops)),
  };
}

interface Seen {
  readonly hosts: string[];
  readonly lengths: string[];
  readonly encodings: string[];
  readonly expectations: string[];
  readonly hops: string[];
  hasUnderscore: boolean;
  hasUpgrade: boolean;
  namesUpgrade: boolean;
}

function note(seen: Seen, name: string, value: string): void {
  // CGI-like backends read X_Forwarded_For and X-Forwarded-For as one name.
  if (name.includes("_")) seen.hasUnderscore = true;
  switch (name.toLowerCase()) {
    case "host":
      seen.hosts.push(value);
      break;
    case "content-length":
      seen.lengths.push(value);
      break;
    case "transfer-encoding":
      seen.encodings.push(value);
      break;
    case "upgrade":
      seen.hasUpgrade = true;
      break;
    case "connection":
      if (/(?:^|,)[ \t]*upgrade[ \t]*(?:,|$)/i.test(value)) seen.namesUpgrade = true;
      break;
    case "expect":
      seen.expectations.push(value);
      break;
    case "max-forwards":
      seen.hops.push(value);
      break;
  }
}

function findProblem(seen: Seen, method: string, httpVersion: string): Problem | null {
  const { hosts, lengths, encodings, expectations } = seen;
  // The parser lets HTTP/0.9 and HTTP/2.0 through as versions of a text that is neither.
  if (httpVersion !== "1.1" && httpVersion !== "1.0") return problems.malformed;
  if (hosts.length !== 1 || !isValidHost(hosts[0] ?? "")) return problems.badHost;
  if (seen.hasUnderscore) return problems.badFieldName;
  // RFC 9112, 6.1 and 6.3: a length beside an encoding, or an encoding in HTTP/1.0, is how requests are smuggled.
  if (encodings.length > 0 && (lengths.length > 0 || httpVersion === "1.0")) return problems.malformed;
  if (lengths.length > 1 || (lengths[0] !== undefined && !/^\d{1,15}$/.test(lengths[0]))) return problems.malformed;
  if (encodings.length > 1 || (encodings[0] ?? "chunked").toLowerCase() !== "chunked")
    return problems.unsupportedEncoding;
  if (expectations.some((expectation) => expectation.toLowerCase() !== "100-continue"))
    return problems.unsupportedExpect;
  return refusedMethods.has(method) ? problems.unsupportedMethod : null;
}
