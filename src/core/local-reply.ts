// A refusal as a value: what the gateway answers when it does not forward. The text is written for the client and
// never holds an address, a path of a file, a token or a stack; the operator's side of the story is in the log.

export interface LocalReply {
  readonly status: number;
  /** A closed set: it is a metric label and a word in the log. */
  readonly reason: RefusalReason;
  readonly message: string;
  readonly errMsg: string;
  /** What the client gets, made once: ASCII. */
  readonly body: string;
}

export type RefusalReason =
  | "malformed"
  | "ambiguous_path"
  | "bad_host"
  | "bad_field_name"
  | "no_token"
  | "invalid_token"
  | "no_route"
  | "slow_request"
  | "body_too_large"
  | "target_too_long"
  | "head_too_large"
  | "unsupported_expect"
  | "unsupported_encoding"
  | "unsupported_method"
  | "throttled"
  | "upstream_failed"
  | "upstream_timeout"
  | "overloaded"
  | "internal";

/** The v2 error format, as bytes on the wire. */
export function errorBody(problem: Pick<LocalReply, "message" | "errMsg">): string {
  return JSON.stringify({ message: problem.message, errors: [{ errMsg: problem.errMsg }] });
}

const problem = (status: number, reason: RefusalReason, message: string, errMsg: string): LocalReply =>
  Object.freeze({ status, reason, message, errMsg, body: errorBody({ message, errMsg }) });

export const localReplies = {
  malformed: problem(400, "malformed", "Bad Request", "The request is not well-formed HTTP."),
  plainHttp: problem(
    400,
    "malformed",
    "Bad Request",
    "The request is plain HTTP, and this port expects TLS: use https.",
  ),
  ambiguousPath: problem(400, "ambiguous_path", "Bad Request", "The path can be read in more than one way."),
  badHost: problem(400, "bad_host", "Bad Request", "Exactly one valid Host header is required."),
  badFieldName: problem(
    400,
    "bad_field_name",
    "Bad Request",
    "A header name contains a character that some servers read as a hyphen.",
  ),
  noToken: problem(401, "no_token", "Unauthorized", "Access token does not exist."),
  invalidToken: problem(401, "invalid_token", "Unauthorized", "Access token does not exist."),
  noRoute: problem(404, "no_route", "Not Found", "There is nothing at this path."),
  slowRequest: problem(408, "slow_request", "Request Timeout", "The request took too long to arrive."),
  bodyTooLarge: problem(413, "body_too_large", "Content Too Large", "The request body is larger than allowed."),
  targetTooLong: problem(414, "target_too_long", "URI Too Long", "The request target is longer than allowed."),
  headTooLarge: problem(
    431,
    "head_too_large",
    "Request Header Fields Too Large",
    "The request headers are too large or too many.",
  ),
  unsupportedExpect: problem(
    417,
    "unsupported_expect",
    "Expectation Failed",
    "Only the expectation 100-continue is supported.",
  ),
  unsupportedEncoding: problem(
    501,
    "unsupported_encoding",
    "Not Implemented",
    "Only the transfer encoding chunked is supported.",
  ),
  unsupportedMethod: problem(501, "unsupported_method", "Not Implemented", "The request method is not supported."),
  throttled: problem(429, "throttled", "Too Many Requests", "Too many requests, please try again later."),
  upstreamFailed: problem(
    502,
    "upstream_failed",
    "Bad Gateway",
    "The upstream could not be reached or gave no valid answer.",
  ),
  upstreamTimeout: problem(504, "upstream_timeout", "Gateway Timeout", "The upstream did not answer in time."),
  overloaded: problem(503, "overloaded", "Service Unavailable", "The service is overloaded, please try again later."),
  internal: problem(500, "internal", "Internal Server Error", "The gateway failed to handle the request."),
} as const;
