// TLS over a TCP connection that reports truncation: Node does not tell whether the upstream ended TLS (close_notify) or
// somebody on the way closed the connection, who could cut off a response without a length (RFC 8446, 6.1). The second is
// an error here. To see it, the bytes of the connection pass through a stream of ours.
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { UpstreamFailure } from "./upstream-failure.ts";

/** `raw` is connected; it is closed with what is returned. */
export function connectTls(raw: Socket, options: ConnectionOptions): TLSSocket {
  const carrier = carry(raw);
  // Must be the first listener: Node's own take every end for the end of TLS.
  carrier.once("end", () => {
    if (!hasEnded(socket)) socket.destroy(new UpstreamFailure("TLS_TRUNCATED"));
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

/** Whether a close_notify has come, even if the reader has not read up to it. */
function hasEnded(socket: TLSSocket): boolean {
  const { _readableState: state } = socket as unknown as { readonly _readableState: { readonly ended: boolean } };
  return state.ended;
}
