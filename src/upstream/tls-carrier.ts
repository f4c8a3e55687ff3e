// TLS over a TCP connection, with the one thing Node does not tell: whether the upstream ended it (close_notify), or
// somebody on the way did, who may cut a response that has no length in half (RFC 8446, 6.1). The second is an error
// here. For that the bytes of the connection pass through a stream of our own, which sees their end.
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";

export class TlsTruncated extends Error {
  readonly code = "TLS_TRUNCATED";

  constructor() {
    super("The connection ended without an end of TLS.");
  }
}

/** `raw` is connected; it is closed with what is returned. */
export function connectTls(raw: Socket, options: ConnectionOptions): TLSSocket {
  const carrier = carry(raw);
  // First of its listeners: those behind it take every end for an end of TLS.
  carrier.once("end", () => {
    if (!hasEnded(socket)) socket.destroy(new TlsTruncated());
  });
  const socket = connect({ ...options, socket: carrier });
  raw.on("error", (error) => socket.destroy(error));
  socket.once("close", () => raw.destroy());
  return socket;
}

function carry(raw: Socket): Duplex {
  const carrier = new Duplex({
    allowHalfOpen: raw.allowHalfOpen,
    read: () => void raw.resume(),
    write: (bytes: Buffer, _encoding, done) => void raw.write(bytes, done),
    writev: (pieces, done) => void raw.write(Buffer.concat(pieces.map(({ chunk }) => chunk)), done),
    final: (done) => void raw.end(() => done()),
    destroy: (error, done) => {
      raw.destroy();
      done(error);
    },
  });
  raw.on("data", (bytes: Buffer) => {
    if (!carrier.push(bytes)) raw.pause();
  });
  raw.once("end", () => carrier.push(null));
  raw.once("close", () => carrier.destroy());
  return carrier;
}

/** Whether TLS has come to its end, though the reader may not have got there. */
function hasEnded(socket: TLSSocket): boolean {
  const { _readableState: state } = socket as unknown as { readonly _readableState: { readonly ended: boolean } };
  return state.ended;
}
