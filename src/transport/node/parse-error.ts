// Maps the errors of Node's HTTP parser to replies to the client.
import { errorCode } from "../../core/failure.ts";
import { maxHeadBytes } from "../../core/head-bounds.ts";
import { type LocalReply, localReplies } from "../../core/local-reply.ts";

/** Returns the reply to a parse error; null if the client has left. */
export function replyToParseError(error: Error, receivedBytes: number): LocalReply | null {
  const code = errorCode(error) ?? "";
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return receivedBytes > 0 ? localReplies.slowRequest : null;
  if (code === "HPE_HEADER_OVERFLOW") return replyToOverflow(error, receivedBytes);
  // The client closed its side within a message, or reset the connection.
  if (code === "HPE_INVALID_EOF_STATE" || !code.startsWith("HPE_")) return null;
  return localReplies.malformed;
}

/**
 * Returns 414 if the connection began with the request and its first line did not end in time. The parser does not say
 * where later heads begin, so they get 431, which is correct too.
 */
function replyToOverflow(error: Error, receivedBytes: number): LocalReply {
  const packet = "rawPacket" in error ? error.rawPacket : undefined;
  const isFirst = packet instanceof Uint8Array && packet.byteLength === receivedBytes;
  const isTarget = isFirst && !packet.subarray(0, maxHeadBytes).includes(0x0a);
  return isTarget ? localReplies.targetTooLong : localReplies.headTooLarge;
}
