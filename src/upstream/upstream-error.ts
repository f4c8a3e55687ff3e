// Failures of the upstream: those that the gateway itself finds, which have a code as the system's errors have; the reason of
// each for the log and the metrics; and the reply to the client.
import type { BrokenRule } from "../core/broken-rule.ts";
import { errorCode, failureCode } from "../core/failure.ts";
import { type LocalReply, localReplies } from "../core/local-reply.ts";
import type { UpstreamErrorReason } from "../core/upstream.ts";
import { ResponseError } from "../http1/response-head.ts";

const failureReasons = {
  ENOTFOUND: "unreachable",
  UPSTREAM_CONNECT_TIMEOUT: "connect_timeout",
  UPSTREAM_CLOSED_EARLY: "closed_early",
  UPSTREAM_RESPONSE_TIMEOUT: "response_timeout",
  UPSTREAM_BODY_TIMEOUT: "body_timeout",
  // Usually sent by an upstream that closes an idle connection.
  UPSTREAM_UNSOLICITED_RESPONSE: "closed_early",
  TLS_TRUNCATED: "closed_early",
  ERR_MALFORMED_RESPONSE: "malformed",
  ERR_RESPONSE_HEAD_TOO_LARGE: "head_too_large",
  ERR_BAD_INTERIM_RESPONSE: "malformed",
} as const satisfies Record<string, UpstreamErrorReason>;

export class UpstreamFailure extends Error {
  readonly code: keyof typeof failureReasons;

  constructor(code: keyof typeof failureReasons) {
    super(`The upstream failed: ${code}`);
    this.code = code;
  }
}

/** The upstream's certificate is not trusted. */
export class TlsRefused extends Error {
  /** A code such as CERT_HAS_EXPIRED. */
  readonly why: string;

  constructor(cause: Error) {
    super("The upstream's certificate was refused.", { cause });
    this.why = errorCode(cause) ?? "ERR_TLS_CERT";
  }
}

const reasonsByCode: Readonly<Record<string, UpstreamErrorReason>> = {
  ...failureReasons,
  // The gateway itself has no files or memory left, which says nothing about the upstream.
  EMFILE: "overloaded",
  ENFILE: "overloaded",
  ENOBUFS: "overloaded",
  ENOMEM: "overloaded",
  ECONNREFUSED: "refused",
  EHOSTUNREACH: "unreachable",
  ENETUNREACH: "unreachable",
  EADDRNOTAVAIL: "unreachable",
  ETIMEDOUT: "connect_timeout",
  ECONNRESET: "reset",
  EPIPE: "reset",
  // In a Fastify app.
  UPSTREAM_RESET: "reset",
  EPROTO: "tls",
};

export function upstreamErrorCode(error: Error): string {
  return error instanceof TlsRefused ? error.why : failureCode(error);
}

/** For the access log, beside a 421 of the upstream (RFC 9110, 15.5.20). */
export const misdirected = "the upstream does not serve this Host, or not with this SNI: see upstream.hostHeader";

/** Returns the rule that a malformed response breaks; null for other failures. */
export function brokenBy(error: Error | null): BrokenRule | null {
  return error instanceof ResponseError ? error.broken : null;
}

export function upstreamErrorReason(error: Error): UpstreamErrorReason {
  if (error instanceof TlsRefused) return "certificate";
  const code = upstreamErrorCode(error);
  return reasonsByCode[code] ?? (code.startsWith("ERR_SSL_") || code.startsWith("ERR_TLS_") ? "tls" : "other");
}

export function upstreamReply(reason: UpstreamErrorReason): LocalReply {
  switch (reason) {
    case "connect_timeout":
    case "response_timeout":
      return localReplies.upstreamTimeout;
    case "overloaded":
      return localReplies.overloaded;
    default:
      return localReplies.upstreamFailed;
  }
}
