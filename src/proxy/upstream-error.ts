// One place that turns what undici and the kernel say into the closed set of reasons and the answer to the client.
import { type Problem, problems } from "../core/problem.ts";
import type { UpstreamErrorReason } from "../core/upstream.ts";
import { upstreamReset } from "./connector.ts";

const reasonsByCode: Readonly<Record<string, UpstreamErrorReason>> = {
  // The gateway's own want of files or memory says nothing of the upstream.
  EMFILE: "overloaded",
  ENFILE: "overloaded",
  ENOBUFS: "overloaded",
  ENOMEM: "overloaded",
  ECONNREFUSED: "refused",
  ENOENT: "refused",
  ENOTFOUND: "unreachable",
  EAI_AGAIN: "unreachable",
  EHOSTUNREACH: "unreachable",
  ENETUNREACH: "unreachable",
  EADDRNOTAVAIL: "unreachable",
  ETIMEDOUT: "connect_timeout",
  UND_ERR_CONNECT_TIMEOUT: "connect_timeout",
  ECONNRESET: "reset",
  [upstreamReset]: "reset",
  EPIPE: "reset",
  UND_ERR_SOCKET: "closed_early",
  UND_ERR_HEADERS_TIMEOUT: "response_timeout",
  UND_ERR_BODY_TIMEOUT: "body_timeout",
  UND_ERR_HEADERS_OVERFLOW: "head_too_large",
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: "malformed",
  // Node's own checks of a field or status that came from the upstream.
  ERR_INVALID_CHAR: "malformed",
  ERR_HTTP_INVALID_STATUS_CODE: "malformed",
  ERR_INVALID_HTTP_TOKEN: "malformed",
  ERR_BAD_INTERIM_RESPONSE: "malformed",
  ERR_BAD_TRANSFER_ENCODING: "malformed",
};

/** A 101 to a request that asked for no other protocol, or interim responses without end. */
export class BadInterimResponse extends Error {
  readonly code = "ERR_BAD_INTERIM_RESPONSE";

  constructor() {
    super("The upstream sent an interim response that it may not send.");
  }
}

/** An encoding of the message that the gateway did not ask for and would have to pass on as content. */
export class BadTransferEncoding extends Error {
  readonly code = "ERR_BAD_TRANSFER_ENCODING";

  constructor() {
    super("The upstream sent a transfer encoding other than chunked.");
  }
}

export function upstreamErrorCode(error: Error): string {
  return "code" in error && typeof error.code === "string" ? error.code : error.name;
}

export function upstreamErrorReason(error: Error): UpstreamErrorReason {
  // undici means to give its parser's errors a code and does not.
  if (error.name === "HTTPParserError") return "malformed";
  return reasonsByCode[upstreamErrorCode(error)] ?? "other";
}

/** The response was complete and its body had not as many bytes as its head said. */
export function isLengthMismatch(error: Error): boolean {
  return upstreamErrorCode(error) === "UND_ERR_RES_CONTENT_LENGTH_MISMATCH";
}

export function upstreamProblem(reason: UpstreamErrorReason): Problem {
  switch (reason) {
    case "connect_timeout":
    case "response_timeout":
      return problems.upstreamTimeout;
    case "overloaded":
      return problems.overloaded;
    case "refused":
    case "unreachable":
    case "reset":
    case "closed_early":
    case "malformed":
    case "head_too_large":
    case "body_timeout":
    case "other":
      return problems.upstreamFailed;
  }
}
