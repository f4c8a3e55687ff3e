// The handle below a socket, which reads and writes. It is not documented, so each part of it may be missing.
import type { Socket } from "node:net";

interface SocketHandle {
  reading?: boolean;
  readonly writeQueueSize?: number;
  readStop?(): void;
  readStart?(): void;
}

/** Returns null for a socket that is closed, or not yet connected. */
export function handleOf(socket: Socket): SocketHandle | null {
  return (socket as { readonly _handle?: SocketHandle | null })._handle ?? null;
}
