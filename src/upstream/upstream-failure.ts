// Failures of the upstream that the gateway itself finds. Like the system's errors, they have a code.
import type { UpstreamErrorReason } from "../core/upstream.ts";

export const failureReasons = {
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
