// Turns errors of the connection and of the system into the closed set of reasons, and a reason into the reply to the
// client.
import { failureCode } from "../core/failure.ts";
import { type LocalReply, localReplies } from "../core/local-reply.ts";
import type { UpstreamErrorReason } from "../core/upstream.ts";
import { TlsRefused } from "./upstream-tls.ts";

const reasonsByCode: Readonly<Record<string, UpstreamErrorReason>> = {
  // The gateway itself has no files or memory left, which says nothing about the upstream.
  EMFILE: "overloaded",
  ENFILE: "overloaded",
  ENOBUFS: "overloaded",
  ENOMEM: "overloaded",
  ECONNREFUSED: "refused",
  ENOTFOUND: "unreachable",
  EHOSTUNREACH: "unreachable",
  ENETUNREACH: "unreachable",
  EADDRNOTAVAIL: "unreachable",
  ETIMEDOUT: "connect_timeout",
  UPSTREAM_CONNECT_TIMEOUT: "connect_timeout",
  ECONNRESET: "reset",
  EPIPE: "reset",
  EPROTO: "tls",
  TLS_TRUNCATED: "closed_early",
  UPSTREAM_CLOSED_EARLY: "closed_early",
  // Usually sent by an upstream that closes an idle connection.
  UPSTREAM_UNSOLICITED_RESPONSE: "closed_early",
  UPSTREAM_RESPONSE_TIMEOUT: "response_timeout",
  UPSTREAM_BODY_TIMEOUT: "body_timeout",
  ERR_RESPONSE_HEAD_TOO_LARGE: "head_too_large",
  ERR_MALFORMED_RESPONSE: "malformed",
  ERR_BAD_INTERIM_RESPONSE: "malformed",
};

export function upstreamErrorCode(error: Error): string {
  if (error instanceof TlsRefused) return error.why;
  return failureCode(error);
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
    case "refused":
    case "unreachable":
    case "certificate":
    case "tls":
    case "reset":
    case "closed_early":
    case "malformed":
    case "head_too_large":
    case "body_timeout":
    case "other":
      return localReplies.upstreamFailed;
  }
}
