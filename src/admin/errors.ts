// What the admin listener answers when it does not serve: fixed texts, so that nothing of the request, of an error or
// of the machine can be in them.
import { type Problem, problemBody, problems } from "../core/problem.ts";
import { serializeHead } from "../core/response-head.ts";

export type AdminError = Pick<Problem, "status" | "message" | "errMsg">;

export const errors = {
  badRequest: problems.malformed,
  notFound: problems.noRoute,
  methodNotAllowed: { status: 405, message: "Method Not Allowed", errMsg: "Only GET and HEAD are allowed here." },
  requestTimeout: problems.slowRequest,
  headTooLarge: problems.headTooLarge,
  internal: { status: 500, message: "Internal Server Error", errMsg: "The figures could not be collected." },
} as const satisfies Record<string, AdminError>;

/** A whole response, for a connection on which there is no request to answer. */
export function rawAnswer(error: AdminError): string {
  const body = problemBody(error);
  const fields = ["Content-Type", "application/json; charset=utf-8", "Content-Length", `${body.length}`];
  fields.push("Cache-Control", "no-store", "Connection", "close");
  return serializeHead(error.status, error.message, fields) + body;
}
