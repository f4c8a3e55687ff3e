// Maps the errors of Node's HTTP parser to replies to the client.
import { errorCode } from "../../core/failure.ts";
import { maxHeadBytes } from "../../core/head-bounds.ts";
import { type LocalReply, localReplies } from "../../core/local-reply.ts";

export interface ParsedSoFar {
  readonly receivedBytes: number;
  /** The first line has not ended within the bytes that a head may have. Where later heads begin is not known. */
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

/** What is known if Node reads the socket itself: the error has the packet, which is the first if it is all so far. */
export function parsedSoFar(error: Error, receivedBytes: number): ParsedSoFar {
  const packet = "rawPacket" in error ? error.rawPacket : undefined;
  const isFirst = packet instanceof Uint8Array && packet.byteLength === receivedBytes;
  return { receivedBytes, isFirstLine: isFirst && !packet.subarray(0, maxHeadBytes).includes(0x0a) };
}
