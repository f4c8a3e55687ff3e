// The API's responses as values, without sockets. Every body is JSON; every error has the v2 error format, in /v1 too. No text
// contains what a client sent, except a number that was parsed first.
import { createHash } from "node:crypto";

export interface ApiAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

export interface ErrorDetail {
  readonly errMsg: string;
  /** Where in the request: `/query/limit`, `/path/id`. */
  readonly instancePath?: string;
}

export function ok(value: unknown): ApiAnswer {
  return jsonAnswer(200, value, { "cache-control": "private" });
}

/** A 200 with an entity tag, or a 304 if the client has this body already (RFC 9110, section 13.1.2). */
export function okOrNotModified(value: unknown, ifNoneMatch: string | undefined): ApiAnswer {
  const answer = ok(value);
  const etag = `"${createHash("sha256")
    .update(answer.body ?? "")
    .digest("base64url")
    .slice(0, 27)}"`;
  const headers = { ...answer.headers, etag };
  if (ifNoneMatch === undefined || !names(ifNoneMatch, etag)) return { ...answer, headers };
  return { status: 304, headers: { "cache-control": "private", etag }, body: null };
}

export function validationFailure(errors: readonly ErrorDetail[]): ApiAnswer {
  return failureOf(400, "Request Validation Failure", errors);
}

export function notFound(errMsg: string): ApiAnswer {
  return failure(404, "Not Found", errMsg);
}

export function methodNotAllowed(allow: string): ApiAnswer {
  return failure(405, "Method Not Allowed", `The methods allowed here are ${allow}.`, { allow });
}

export function allowedMethods(allow: string): ApiAnswer {
  return { status: 204, headers: { allow }, body: null };
}

export const unknownPath = notFound("There is nothing at this path.");

export const unauthorized = failure(401, "Unauthorized", "Access token does not exist.", {
  "www-authenticate": 'Bearer realm="finance"',
});

export const malformedRequest = failure(400, "Bad Request", "The request is not well-formed HTTP.");

export const requestTimeout = failure(408, "Request Timeout", "The request took too long to arrive.");

export const headTooLarge = failure(431, "Request Header Fields Too Large", "The request headers are too large.");

/** No endpoint reads a body. A client may send this much anyway. */
export const maxBodyBytes = 65_536;

const tooLarge = `The request body is larger than ${maxBodyBytes} bytes.`;
export const bodyTooLarge = failure(413, "Content Too Large", tooLarge, { connection: "close" });

export const internalError = failure(500, "Internal Server Error", "The server failed to handle the request.");

type Headers = ApiAnswer["headers"];

function failure(status: number, message: string, errMsg: string, headers?: Headers): ApiAnswer {
  return failureOf(status, message, [{ errMsg }], headers);
}

function failureOf(status: number, message: string, errors: readonly ErrorDetail[], headers: Headers = {}): ApiAnswer {
  return jsonAnswer(status, { message, errors }, { "cache-control": "no-store", ...headers });
}

function jsonAnswer(status: number, value: unknown, headers: Readonly<Record<string, string>>): ApiAnswer {
  return {
    status,
    headers: { "content-type": "application/json; charset=utf-8", ...headers },
    body: JSON.stringify(value),
  };
}

/** The weak comparison that If-None-Match asks for. Our tags hold no comma, so splitting at commas is safe. */
function names(ifNoneMatch: string, etag: string): boolean {
  const candidates = ifNoneMatch.split(",").map((candidate) => candidate.trim().replace(/^W\//, ""));
  return candidates.includes("*") || candidates.includes(etag);
}
