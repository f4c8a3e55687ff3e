// Maps the errors of Node's HTTP parser to replies to the client.
import { errorCode } from "../core/failure.ts";
import { maxHeadBytes } from "../core/http-bounds.ts";
import { type LocalReply, localReplies } from "../core/local-reply.ts";

/** Returns the reply to a parse error; null if the client has left. `receivedBytes`: of the socket. */
export function replyToParseError(error: Error, receivedBytes: number): LocalReply | null {
  const code = errorCode(error) ?? "";
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return receivedBytes > 0 ? localReplies.slowRequest : null;
  if (code === "HPE_HEADER_OVERFLOW") {
    return isFirstLine(error, receivedBytes) ? localReplies.targetTooLong : localReplies.headTooLarge;
  }
  // The client closed its side within a message, or reset the connection.
  if (code === "HPE_INVALID_EOF_STATE" || !code.startsWith("HPE_")) return null;
  return localReplies.malformed;
}

/** The error has the packet, which is the first one if nothing else was received. */
function isFirstLine(error: Error, receivedBytes: number): boolean {
  const packet = "rawPacket" in error ? error.rawPacket : undefined;
  const isFirst = packet instanceof Uint8Array && packet.byteLength === receivedBytes;
  return isFirst && !packet.subarray(0, maxHeadBytes).includes(0x0a);
}
