// Turns errors of the connection and of the system into the closed set of reasons. Turns a reason, or an exceeded
// share, into the reply to the client.
import { failureCode } from "../core/failure.ts";
import { type LocalReply, localReplies } from "../core/local-reply.ts";
import type { UpstreamErrorReason } from "../core/upstream.ts";
import { TlsRefused } from "./tls-refused.ts";
import { failureReasons } from "./upstream-failure.ts";

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
  EPROTO: "tls",
};

export function upstreamErrorCode(error: Error): string {
  return error instanceof TlsRefused ? error.why : failureCode(error);
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
