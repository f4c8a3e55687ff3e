// Turns the errors of undici, and what it passes on from the connection, into the closed set of reasons.
import type { UpstreamErrorReason } from "../../core/upstream.ts";
import { upstreamErrorCode, upstreamErrorReason } from "../../upstream/upstream-error.ts";

const reasonsByCode: Readonly<Record<string, UpstreamErrorReason>> = {
  UND_ERR_HEADERS_TIMEOUT: "response_timeout",
  UND_ERR_BODY_TIMEOUT: "body_timeout",
  UND_ERR_HEADERS_OVERFLOW: "head_too_large",
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: "closed_early",
  // The other side closed the connection, or sent what cannot be a response.
  UND_ERR_SOCKET: "closed_early",
};

export function undiciErrorReason(error: Error): UpstreamErrorReason {
  const code = upstreamErrorCode(error);
  return reasonsByCode[code] ?? (code.startsWith("HPE_") ? "malformed" : upstreamErrorReason(error));
}
