// Answers to bytes that never became a request: the parser gave up, or the head took too long. They look like every other answer of
// the gateway's and carry the same fields.
import { type Problem, problems } from "../core/problem.ts";

/** What to tell a client whose bytes the parser refused; null when there is nobody left to tell. */
export function problemOfParseError(error: Error, receivedBytes: number): Problem | null {
  const code = "code" in error ? String(error.code) : "";
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return receivedBytes > 0 ? problems.slowRequest : null;
  if (code === "HPE_HEADER_OVERFLOW") return hasOverlongTarget(error) ? problems.targetTooLong : problems.headTooLarge;
  // The client closed its side in the middle of a message; a reset is no message at all.
  if (code === "HPE_INVALID_EOF_STATE" || !code.startsWith("HPE_")) return null;
  return problems.malformed;
}

/** The head was too large before its first line ended, so it was the target that was too long. */
function hasOverlongTarget(error: Error): boolean {
  const packet = "rawPacket" in error ? error.rawPacket : undefined;
  return packet instanceof Uint8Array && !packet.subarray(0, 16_384).includes(0x0a);
}

export function serializeAnswer({ status, message }: Problem, fields: readonly string[], body: string): string {
  let text = `HTTP/1.1 ${status} ${message}\r\n`;
  for (let i = 0; i < fields.length; i += 2) text += `${fields[i]}: ${fields[i + 1]}\r\n`;
  return `${text}Connection: close\r\n\r\n${body}`;
}
