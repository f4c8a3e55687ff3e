// Parses a packet as one complete request, for the checks over HTTP: any other packet is left to Node's parser there.
import { emptyLineBytes, type Http1Head, headLength, readUsualHead } from "./request-head.ts";

export interface SimpleRequest extends Pick<Http1Head, "method" | "target" | "httpVersion" | "rawHeaders" | "isLast"> {
  readonly body: Buffer;
}

/** Parses a packet as one complete request, not in chunks, without Expect and no Upgrade. Returns null if it is anything else. */
export function readSimpleRequest(packet: Buffer): SimpleRequest | null {
  return (endsLikeHead(packet) ? readWhole(packet, packet.length) : null) ?? readWhole(packet, headLength(packet));
}

/** Most requests have no body, and to look at the end is cheaper than to search for the end of the head. */
function endsLikeHead(packet: Buffer): boolean {
  const { length } = packet;
  return packet[length - 1] === 0x0a && packet[length - 2] === 0x0d && packet[length - 3] === 0x0a;
}

function readWhole(packet: Buffer, headBytes: number): SimpleRequest | null {
  const head = headBytes === -1 ? null : readUsualHead(packet.toString("latin1", 0, headBytes));
  if (head === null || head.bodyBytes === null || head.expectation !== null || head.asksToUpgrade) return null;
  if (headBytes + head.bodyBytes !== packet.length) return null;
  const { method, target, httpVersion, rawHeaders, isLast } = head;
  return { method, target, httpVersion, rawHeaders, body: packet.subarray(headBytes), isLast };
}

/** Returns whether there is nothing but empty lines, which some clients send after a body (RFC 9112, 2.2). */
export function isEmptyLines(bytes: Buffer): boolean {
  return emptyLineBytes(bytes) === bytes.length;
}
