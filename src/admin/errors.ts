// The errors of the admin listener. Their texts are fixed, so that they contain nothing of the request, of an error or of
// the machine.
import { linesOf, serializeHead } from "../core/headers.ts";
import { type ErrorText, errorBody, localReplies } from "../core/local-reply.ts";
import { jsonType } from "./request-fields.ts";

export type AdminError = ErrorText;

export const errors = {
  badRequest: localReplies.malformed,
  notFound: localReplies.noRoute,
  methodNotAllowed: { status: 405, message: "Method Not Allowed", errMsg: "Only GET and HEAD are allowed here." },
  requestTimeout: localReplies.slowRequest,
  headTooLarge: localReplies.headTooLarge,
  internal: { status: 500, message: "Internal Server Error", errMsg: "The figures could not be collected." },
  unauthorized: { status: 401, message: "Unauthorized", errMsg: "A token of the admin API is required." },
  readOnly: { status: 403, message: "Forbidden", errMsg: "This token may read and not write." },
  usedLink: {
    status: 403,
    message: "Forbidden",
    errMsg:
      "A link signs in once, within a minute: this one is used up. Sign in with the token that stands below it. If you have not used the link before, somebody else has: end the command.",
  },
  unknownLink: {
    status: 403,
    message: "Forbidden",
    errMsg: "The code of this link is not the one that was printed: use that link or that token.",
  },
  foreignOrigin: { status: 403, message: "Forbidden", errMsg: "Pages of another origin may not ask here." },
  misdirected: { status: 421, message: "Misdirected Request", errMsg: "This listener does not answer for this host." },
  tooManyGuesses: {
    status: 429,
    message: "Too Many Requests",
    errMsg: "Too many wrong tokens, or checks that name a token, please try again later.",
  },
  notJson: {
    status: 415,
    message: "Unsupported Media Type",
    errMsg: "Content-Type: found another one, expected application/json.",
  },
  bodyNotExpected: { status: 400, message: "Bad Request", errMsg: "body: found one, expected none." },
  brokenBody: {
    status: 400,
    message: "Bad Request",
    errMsg: "body: found no JSON, or a forbidden key, expected a JSON object, such as {}.",
  },
  bodyTooLarge: localReplies.bodyTooLarge,
  badCondition: {
    status: 400,
    message: "Bad Request",
    errMsg: "If-Match, If-None-Match: found another one, expected entity tags or an asterisk, in one of the two.",
  },
  unknownRequest: {
    status: 404,
    message: "Not Found",
    errMsg:
      "No refusal with this id is remembered: it is too old, from before a restart, of another gateway, or was left out: the gateway keeps at most five a second of each client.",
  },
  unknownRule: { status: 404, message: "Not Found", errMsg: "There is no rule with this id." },
  tooManyStreams: { status: 503, message: "Service Unavailable", errMsg: "Too many streams of events are open." },
  overloaded: localReplies.overloaded,
  failed: { status: 500, message: "Internal Server Error", errMsg: "The call has failed; the log says why." },
} as const satisfies Record<string, AdminError>;

/** The v2 error format with several errors. */
export function errorsBody(message: string, details: readonly string[]): string {
  return JSON.stringify({ message, errors: details.map((errMsg) => ({ errMsg })) });
}

/** A complete response, for bytes that never became a request. */
export function rawAnswer(error: AdminError): string {
  const body = errorBody(error);
  const fields = ["Content-Type", jsonType, "Content-Length", `${body.length}`];
  fields.push("Cache-Control", "no-store", "Connection", "close");
  return serializeHead(error.status, error.message, linesOf(fields)) + body;
}
