// Maps the errors of Node's HTTP parser to replies to the client.
import { errorCode } from "../../core/failure.ts";
import { maxHeadBytes } from "../../core/head-bounds.ts";
import { type LocalReply, localReplies } from "../../core/local-reply.ts";

export interface ParsedSoFar {
  readonly receivedBytes: number;
  /** The first line of the connection has not ended within the bytes that a head may have. */
  readonly isFirstLine: boolean;
}

/** Returns the reply to a parse error; null if the client has left. */
export function replyToParseError(error: Error, { receivedBytes, isFirstLine }: ParsedSoFar): LocalReply | null {
  const code = errorCode(error) ?? "";
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return receivedBytes > 0 ? localReplies.slowRequest : null;
  if (code === "HPE_HEADER_OVERFLOW") return isFirstLine ? localReplies.targetTooLong : localReplies.headTooLarge;
  // The client closed its side within a message, or reset the connection.
  if (code === "HPE_INVALID_EOF_STATE" || !code.startsWith("HPE_")) return null;
  return localReplies.malformed;
}

/**
 * For a socket that Node reads itself. The error has the packet, which is the first one if nothing else was received.
 */
export function parsedSoFar(error: Error, receivedBytes: number): ParsedSoFar {
  const packet = "rawPacket" in error ? error.rawPacket : undefined;
  const isFirst = packet instanceof Uint8Array && packet.byteLength === receivedBytes;
  return { receivedBytes, isFirstLine: isFirst && !packet.subarray(0, maxHeadBytes).includes(0x0a) };
}
