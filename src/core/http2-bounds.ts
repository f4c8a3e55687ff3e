// Why the gateway closes an HTTP/2 connection, or resets a stream, that costs too much.

/**
 * `head_too_large`: a decoded header block would be far larger than a head may be. `malformed`: it is not valid HPACK.
 * `frames`: too many frames that carry nothing. `resets`: too many streams were reset.
 */
export const http2CloseReasons = ["head_too_large", "malformed", "frames", "resets"] as const;
export type Http2CloseReason = (typeof http2CloseReasons)[number];

/** The error code of the GOAWAY (RFC 9113, 7): COMPRESSION_ERROR, or ENHANCE_YOUR_CALM. */
export function http2CloseCode(reason: Http2CloseReason): number {
  return reason === "malformed" ? 0x9 : 0xb;
}

/**
 * `per_peer`, `total`: too many streams are open, and a new one was refused. `unread`: the response could not be sent,
 * because the client did not read it.
 */
export const http2ResetReasons = ["per_peer", "total", "unread"] as const;
export type Http2ResetReason = (typeof http2ResetReasons)[number];
