// Answers to bytes that never became a request: the parser gave up, or the head took too long. They look like every
// other answer of the gateway's and carry the same fields. Also how any head becomes bytes without Node's response.
import { type Problem, problems } from "../core/problem.ts";
import { serializeHead } from "../core/response-head.ts";

/** What to tell a client whose bytes the parser refused; null when there is nobody left to tell. */
export function problemOfParseError(error: Error, receivedBytes: number): Problem | null {
  const code = "code" in error ? String(error.code) : "";
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return receivedBytes > 0 ? problems.slowRequest : null;
  if (code === "HPE_HEADER_OVERFLOW") return overflowProblem(error, receivedBytes);
  // The client closed its side in the middle of a message; a reset is no message at all.
  if (code === "HPE_INVALID_EOF_STATE" || !code.startsWith("HPE_")) return null;
  return problems.malformed;
}

/**
 * The target was too long if the connection began with it and its line did not end in time. Of later heads the parser
 * does not say where they began, so there it is the head as a whole, which is true as well.
 */
function overflowProblem(error: Error, receivedBytes: number): Problem {
  const packet = "rawPacket" in error ? error.rawPacket : undefined;
  const isFirst = packet instanceof Uint8Array && packet.byteLength === receivedBytes;
  return isFirst && !packet.subarray(0, 16_384).includes(0x0a) ? problems.targetTooLong : problems.headTooLarge;
}

export function serializeAnswer({ status, message }: Problem, fields: readonly string[], body: string): string {
  return serializeHead(status, message, [...fields, "Connection", "close"]) + body;
}
