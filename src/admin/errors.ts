// The errors of the admin listener. Their texts are fixed, so that they contain nothing of the request, of an error or of
// the machine.
import { linesOf } from "../core/header-lines.ts";
import { errorBody, type LocalReply, localReplies } from "../core/local-reply.ts";
import { serializeHead } from "../core/response-head.ts";

export type AdminError = Pick<LocalReply, "status" | "message" | "errMsg">;

export const errors = {
  badRequest: localReplies.malformed,
  notFound: localReplies.noRoute,
  methodNotAllowed: { status: 405, message: "Method Not Allowed", errMsg: "Only GET and HEAD are allowed here." },
  requestTimeout: localReplies.slowRequest,
  headTooLarge: localReplies.headTooLarge,
  internal: { status: 500, message: "Internal Server Error", errMsg: "The figures could not be collected." },
} as const satisfies Record<string, AdminError>;

/** A complete response, for bytes that never became a request. */
export function rawAnswer(error: AdminError): string {
  const body = errorBody(error);
  const fields = ["Content-Type", "application/json; charset=utf-8", "Content-Length", `${body.length}`];
  fields.push("Cache-Control", "no-store", "Connection", "close");
  return serializeHead(error.status, error.message, linesOf(fields)) + body;
}
