// Reads the first bytes of a connection within a timeout, before TLS or HTTP reads the socket. Bytes that are not taken
// stay in the socket, which is then paused.
import type { Socket } from "node:net";
import { ignoreError } from "../core/failure.ts";

interface FirstBytesHandlers {
  /** Receives all bytes so far. Returns null to wait for more, else how many bytes to take and what to do next. */
  readonly onBytes: (received: Buffer) => { readonly taken: number; readonly next: () => void } | null;
  /** The connection is closed afterwards. */
  readonly onTimeout: () => void;
  /** The client closed the connection first. */
  readonly onClose: (receivedBytes: number) => void;
}

export function readFirstBytes(socket: Socket, timeoutMs: number, handlers: FirstBytesHandlers): void {
  let received: Buffer = Buffer.alloc(0);
  const stop = (): void => {
    clearTimeout(timer);
    socket.off("data", onData).off("end", onEnd).off("close", onClose);
  };
  const onData = (data: Buffer): void => {
    received = received.length === 0 ? data : Buffer.concat([received, data]);
    const step = handlers.onBytes(received);
    if (step === null) return;
    stop();
    // Without a listener, flowing data would be lost.
    socket.pause();
    const rest = received.subarray(step.taken);
    if (rest.length > 0) socket.unshift(rest);
    step.next();
  };
  // The server keeps half-closed connections open, because HTTP allows them.
  const onEnd = (): void => void socket.destroy();
  const onClose = (): void => {
    stop();
    handlers.onClose(received.length);
  };
  const timer = setTimeout(() => {
    stop();
    handlers.onTimeout();
    socket.destroy();
  }, timeoutMs);
  socket.on("error", ignoreError);
  socket.on("data", onData).on("end", onEnd).on("close", onClose);
}
