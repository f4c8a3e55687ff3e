// The responses of the gateway itself, mostly refusals. Their text is for the client and contains no address, file
// path, token or stack; what an operator needs is in the log.
import { type BrokenRule, brokenRule } from "./broken-rule.ts";
import type { SharedResource } from "./client-share.ts";
import { type HeaderLines, reasonPhrase } from "./headers.ts";
import { maxFields } from "./http-bounds.ts";

/** An error as a client reads it, in whatever format. */
export interface ErrorText {
  readonly status: number;
  readonly message: string;
  readonly errMsg: string;
}

interface ReplyContent {
  /** In ASCII; an error is in the v2 format. */
  readonly body: string;
  /** The headers that do not depend on the origin, the client and its quota. */
  readonly lines: HeaderLines;
}

export interface LocalReply extends ErrorText, ReplyContent {
  /** A label in metrics and a field in the log; null if nothing is refused. */
  readonly reason: RefusalReason | null;
  /** The request headers on which the reply to a page of another origin depends; by default Origin. */
  readonly varies?: string;
  /** For the log, if the reason does not say it: which bound was exceeded, and by how much, or which rule was broken. */
  readonly detail?: string | BrokenRule;
  /** It tells a load balancer about the gateway, so it is no traffic: no line in the log, and in no figure of clients. */
  readonly isProbe?: true;
}

/** Each reason for a refusal, with the sentence that says it to an operator; null: it takes figures, see `explanationOf`. */
export const refusalSentences = {
  malformed: "The request is not well-formed HTTP.",
  ambiguous_path: "Readings of the path disagree about the route it is under.",
  bad_host: "It had no Host field, several, or one that is no host.",
  bad_field_name: "A server may read the name of a header as that of another one; the response and the log name it.",
  small_pieces: "Its body came in too many small pieces.",
  no_token: "It had no bearer token, and the path asks for one.",
  invalid_token: "Its token is malformed, repeated or not listed.",
  expired_token: "Its token was listed, and its end has come.",
  insufficient_scope: "Its token lacks a scope that a rule of auth.rules asks for.",
  blocked: null,
  no_route: "The path is under no route.",
  method_not_allowed: "It is about quota.path, where only GET and HEAD are possible.",
  slow_request:
    "Its head took longer than timeouts.head, or its body was slower than timeouts.body and timeouts.bodyRate allow.",
  body_too_large: "Its body is larger than maxBodyBytes.",
  target_too_long: "Its target is longer than maxTargetBytes.",
  head_too_large:
    "Its head is larger than maxHeaderBytes, or has more than 200 headers, or its trailers are too large: see detail in the log.",
  unsupported_expect: "It expects something else than 100-continue.",
  unsupported_encoding: "It has a transfer encoding that is not supported.",
  unsupported_method: "Its method is not supported.",
  throttled: null,
  too_many_refusals:
    "The client has used up its budget for refusals that spend no quota; see refusals in the configuration.",
  upstream_failed: "The upstream could not be reached, or gave no valid answer.",
  upstream_timeout: "The upstream did not answer in time.",
  client_share: "The client holds as much of what all clients share as it may.",
  store_unavailable: "The shared store is away, and counters.redis.onFailure is closed.",
  overloaded: "No connection to the upstream was free in time, or too many connections are open.",
  internal: "A bug in the gateway; the log has it.",
} as const;

export type RefusalReason = keyof typeof refusalSentences;
export const refusalReasons = Object.keys(refusalSentences) as readonly RefusalReason[];

/** Renders the v2 error format. */
export function errorBody({ message, errMsg }: ErrorText): string {
  return JSON.stringify({ message, errors: [{ errMsg }] });
}

const notStored = "Cache-Control: no-store\r\n";

const formats = {
  v2: { type: "application/json; charset=utf-8", render: errorBody },
  // RFC 9457. A type of its own for each reason would tell the reason, which is for the log.
  problem: {
    type: "application/problem+json",
    render: ({ status, message: title, errMsg: detail }: ErrorText) =>
      JSON.stringify({ type: "about:blank", title, status, detail }),
  },
  plain: { type: "text/plain; charset=utf-8", render: ({ errMsg }: ErrorText) => `${errMsg}\n` },
} as const;

/** How an error is written: the API's version 2, RFC 9457's problem details, or one line of text. */
export type ErrorFormat = keyof typeof formats;

/** Renders an error as a body in ASCII, and the headers that describe it. */
export function errorContent(error: ErrorText, format: ErrorFormat): ReplyContent {
  const { type, render } = formats[format];
  return contentOf(render(error), type);
}

/** `body`: in ASCII. */
function contentOf(body: string, type: string): ReplyContent {
  return { body, lines: `${notStored}Content-Type: ${type}\r\nContent-Length: ${body.length}\r\n` };
}

/** Returns a refusal in this format. What refuses nothing stays as it is. */
export function inFormat(reply: LocalReply, format: ErrorFormat): LocalReply {
  if (reply.reason === null) return reply;
  const { body, lines } = errorContent(reply, format);
  // Those that do not describe the body come first.
  return { ...reply, body, lines: reply.lines.slice(0, reply.lines.indexOf(notStored)) + lines };
}

/** `more`: further headers. */
function refusal(status: number, reason: RefusalReason, errMsg: string, more: HeaderLines = "") {
  // RFC 9110 has another phrase for 413 than Node.
  const message = status === 413 ? "Content Too Large" : reasonPhrase(status);
  const { body, lines } = errorContent({ status, message, errMsg }, "v2");
  return Object.freeze({ status, reason, message, errMsg, body, lines: more + lines });
}

function detailed(status: number, reason: RefusalReason, errMsg: string, detail: NonNullable<LocalReply["detail"]>) {
  return Object.freeze({ ...refusal(status, reason, errMsg), detail });
}

function shareUsedUp(ofWhat: string) {
  return detailed(503, "client_share", `This client has used up its share of ${ofWhat}.`, ofWhat);
}

export const localReplies = {
  malformed: refusal(400, "malformed", "The request is not well-formed HTTP."),
  plainHttp: detailed(
    400,
    "malformed",
    "The request is plain HTTP, and this port expects TLS: use https.",
    brokenRule("plain HTTP on a port with TLS"),
  ),
  ambiguousPath: refusal(400, "ambiguous_path", "The path can be read in more than one way."),
  badHost: refusal(400, "bad_host", "Exactly one valid Host header is required."),
  badFieldName: refusal(400, "bad_field_name", "A header name can be read as another one."),
  smallPieces: refusal(400, "small_pieces", "The request body comes in too many small pieces."),
  noToken: refusal(401, "no_token", "Access token does not exist."),
  malformedToken: detailed(401, "invalid_token", "Access token does not exist.", "malformed or repeated"),
  invalidToken: refusal(401, "invalid_token", "Access token does not exist."),
  expiredToken: refusal(401, "expired_token", "Access token does not exist."),
  insufficientScope: refusal(403, "insufficient_scope", "The access token does not allow this request."),
  blocked: refusal(403, "blocked", "Access is not allowed."),
  noRoute: refusal(404, "no_route", "There is nothing at this path."),
  methodNotAllowed: refusal(
    405,
    "method_not_allowed",
    "Only GET and HEAD are possible at this path.",
    "Allow: GET, HEAD\r\n",
  ),
  slowRequest: refusal(408, "slow_request", "The request took too long to arrive."),
  bodyTooLarge: detailed(413, "body_too_large", "The request body is larger than allowed.", "maxBodyBytes"),
  targetTooLong: detailed(414, "target_too_long", "The request target is longer than allowed.", "maxTargetBytes"),
  headTooLarge: detailed(431, "head_too_large", "The request headers are larger than allowed.", "maxHeaderBytes"),
  tooManyFields: detailed(431, "head_too_large", "The request has more headers than allowed.", `${maxFields} headers`),
  trailersTooLarge: detailed(431, "head_too_large", "The trailers of the request are larger than allowed.", "trailers"),
  unsupportedExpect: refusal(417, "unsupported_expect", "Only the expectation 100-continue is supported."),
  unsupportedEncoding: refusal(501, "unsupported_encoding", "Only the transfer encoding chunked is supported."),
  unsupportedMethod: refusal(501, "unsupported_method", "The request method is not supported."),
  throttled: refusal(429, "throttled", "Too many requests, please try again later."),
  tooManyRefusals: refusal(429, "too_many_refusals", "Too many requests, please try again later."),
  upstreamFailed: refusal(502, "upstream_failed", "The upstream could not be reached or gave no valid answer."),
  upstreamTimeout: refusal(504, "upstream_timeout", "The upstream did not answer in time."),
  overConnectionShare: shareUsedUp("the connections to the upstream"),
  slowWhileOthersWait: refusal(503, "client_share", "This transfer is slow, and other clients wait for a connection."),
  overClientConnectionShare: shareUsedUp("the connections to this service"),
  overQueueShare: shareUsedUp("the waiting requests"),
  overTunnelShare: shareUsedUp("the tunnels"),
  storeUnavailable: refusal(
    503,
    "store_unavailable",
    "The rate limit cannot be checked at the moment, please try again later.",
  ),
  overloaded: refusal(503, "overloaded", "The service is overloaded, please try again later."),
  internal: refusal(500, "internal", "The gateway failed to handle the request."),
} as const;

export function malformedBy(detail: BrokenRule): LocalReply {
  return { ...localReplies.malformed, detail };
}

/** Returns the rule of a detail; null if it is none. */
export function ruleOf(detail: string | BrokenRule | null = null): string | null {
  return detail === null || typeof detail === "string" ? null : detail.rule;
}

/** Returns `badFieldName` with the name that is refused. `other`: the name for which a server may take it. */
export function badFieldName(name: string, other: string): LocalReply {
  // An ingress may send other characters than those of a name.
  const field = name.slice(0, 64).replace(/[^!-~]/g, "?");
  const detail = brokenRule(`a name that can be read as ${other}`, null, name);
  return { ...refusal(400, "bad_field_name", `The header name ${field} can be read as ${other}.`), detail };
}

/** To a client that has used up its share of the resource. */
export const shareReplies: Readonly<Record<SharedResource, LocalReply>> = {
  connections: localReplies.overConnectionShare,
  queue: localReplies.overQueueShare,
  tunnels: localReplies.overTunnelShare,
  client_connections: localReplies.overClientConnectionShare,
};

/** The reply to `OPTIONS *`, which is about the server as a whole (RFC 9110, 9.3.7). Refuses nothing. */
export const serverOptions: LocalReply = Object.freeze({
  status: 204,
  reason: null,
  message: "No Content",
  errMsg: "",
  body: "",
  // A 204 has no Content-Length (RFC 9110, 8.6).
  lines: notStored,
});

/** The reply to a preflight of a browser, for calls with this method and these headers. Refuses nothing. */
export function preflightReply(method: string, names: readonly string[]): LocalReply {
  const allowed = names.length === 0 ? "" : `Access-Control-Allow-Headers: ${names.join(", ")}\r\n`;
  return {
    ...serverOptions,
    lines: `${notStored}Access-Control-Allow-Methods: ${method}\r\n${allowed}Access-Control-Max-Age: 600\r\n`,
    varies: "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
  };
}

/** The reply to a preflight about the caller's own quota, whose token is in a header. */
export const quotaPreflight = preflightReply("GET, HEAD", ["Authorization"]);

/** The replies at `readiness.path` and to the probes of an ext-auth listener. They refuse nothing. */
export const probeReplies = {
  alive: probeReply(200, "alive"),
  starting: probeReply(503, "starting"),
  ready: probeReply(200, "ready"),
  draining: probeReply(503, "draining"),
};

function probeReply(status: number, word: string): LocalReply {
  const content = contentOf(word, formats.plain.type);
  return Object.freeze({ status, reason: null, message: reasonPhrase(status), errMsg: "", ...content, isProbe: true });
}

/** Makes a reply of JSON that refuses nothing. Other characters than ASCII are escaped. */
export function jsonReply(value: unknown): LocalReply {
  const body = JSON.stringify(value).replace(/[^\x20-\x7e]/g, escaped);
  return { status: 200, reason: null, message: "OK", errMsg: "", ...contentOf(body, formats.v2.type) };
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
