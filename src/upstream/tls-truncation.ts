// Makes a truncated TLS connection fail: Node does not tell whether the upstream ended TLS (close_notify) or somebody on
// the way closed the connection, who could cut off a response without a length (RFC 8446, 6.1). What tells them apart is
// whether the TCP connection below is still being read: its own end stops that. The handle that knows it is not
// documented. Without it every end is taken for a truncation, so no cut response is ever taken for a whole one.
import { constants } from "node:os";
import type { TLSSocket } from "node:tls";
import { UpstreamFailure } from "./upstream-failure.ts";

interface Handle {
  /** False while the reader has paused it. */
  readonly reading: boolean;
  /** The one of the TCP connection. `readStart` returns EALREADY while it is read. */
  readonly _parent?: { readStart?(): number };
}

/** Instead of ending, the socket fails with TLS_TRUNCATED. Call it before the socket can be read. */
export function failIfTruncated(socket: TLSSocket): void {
  const { push } = socket;
  // Node pushes null for either end as soon as it comes, also if bytes before it have not been read.
  socket.push = (chunk: unknown, encoding?: BufferEncoding): boolean => {
    if (chunk !== null || hasEnded(socket)) return push.call(socket, chunk, encoding);
    socket.destroy(new UpstreamFailure("TLS_TRUNCATED"));
    return false;
  };
}

/** Whether an end that comes right now is that of TLS. */
function hasEnded(socket: TLSSocket): boolean {
  const { _handle: handle } = socket as unknown as { readonly _handle: Handle | null };
  // While it is paused, the end of the TCP connection is not seen, but the rest of what was read before is.
  return handle?.reading === false || handle?._parent?.readStart?.() === -constants.errno.EALREADY;
}
