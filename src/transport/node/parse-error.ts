// What Node's parser says of bytes that it refuses, as the reply to the client.
import { maxHeadBytes } from "../../core/head-bounds.ts";
import { type LocalReply, localReplies } from "../../core/local-reply.ts";

/** Returns what to tell a client whose bytes the parser refused; null when nobody is left to be told. */
export function replyToParseError(error: Error, receivedBytes: number): LocalReply | null {
  const code = "code" in error ? String(error.code) : "";
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return receivedBytes > 0 ? localReplies.slowRequest : null;
  if (code === "HPE_HEADER_OVERFLOW") return replyToOverflow(error, receivedBytes);
  // The client closed its side in the middle of a message; a reset is no message at all.
  if (code === "HPE_INVALID_EOF_STATE" || !code.startsWith("HPE_")) return null;
  return localReplies.malformed;
}

/**
 * The target was too long if the connection began with it and its line did not end in time. Of later heads the parser
 * does not say where they began, so there it is the head as a whole, which is true as well.
 */
function replyToOverflow(error: Error, receivedBytes: number): LocalReply {
  const packet = "rawPacket" in error ? error.rawPacket : undefined;
  const isFirst = packet instanceof Uint8Array && packet.byteLength === receivedBytes;
  const isTarget = isFirst && !packet.subarray(0, maxHeadBytes).includes(0x0a);
  return isTarget ? localReplies.targetTooLong : localReplies.headTooLarge;
}
