// A failure of the upstream that the gateway itself has found; like the system's errors it is told by its code.

export type UpstreamFailureCode =
  | "ENOTFOUND"
  | "UPSTREAM_CONNECT_TIMEOUT"
  | "UPSTREAM_CLOSED_EARLY"
  | "UPSTREAM_RESPONSE_TIMEOUT"
  | "UPSTREAM_BODY_TIMEOUT"
  | "UPSTREAM_UNSOLICITED_RESPONSE"
  | "TLS_TRUNCATED"
  | "ERR_MALFORMED_RESPONSE"
  | "ERR_RESPONSE_HEAD_TOO_LARGE"
  | "ERR_BAD_INTERIM_RESPONSE";

export class UpstreamFailure extends Error {
  readonly code: UpstreamFailureCode;

  constructor(code: UpstreamFailureCode) {
    super(`The upstream failed: ${code}`);
    this.code = code;
  }
}
