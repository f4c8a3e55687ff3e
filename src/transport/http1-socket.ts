// What both parsers of HTTP/1 share: closing a socket so that the client reads its last response, and bounds.
import type { Socket } from "node:net";
import { ignoreError } from "../core/failure.ts";
import { lingerMs } from "../exchange/http1-bounds.ts";
import { handleOf } from "./socket-handle.ts";

/** The connection that a transport writes to. */
export interface Http1Owner {
  readonly socket: Socket;
  readonly scheme: "http" | "https";
  /** Whether the response to the current request is the last on this connection. */
  readonly isLastRequest: boolean;
  /** Is called when the response is complete and sent. `nowMs`: the clock, if it was just read. */
  endRequest(nowMs?: number): void;
}

/** How long a new connection is kept during a drain: its client is about to send a request. */
export const firstRequestMs = 300;

/**
 * Calls `act` after `delayMs`, once the bytes that have arrived by then have been read. The event loop runs timers before it
 * reads: a gateway that stood still for a moment would end a connection whose request has arrived.
 */
export function afterReading(delayMs: number, act: () => void): NodeJS.Timeout {
  return setTimeout(() => setImmediate(act), delayMs);
}

/**
 * Ends a socket, and reads and discards what the client still sends: destroying a socket with unread bytes resets the
 * connection, and the reset can overtake the response.
 */
export function endAndLinger(socket: Socket): void {
  // Node removes its own listener when it releases a socket (CONNECT).
  socket.on("error", ignoreError);
  socket.end();
  readOn(socket);
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once("close", () => clearTimeout(timer));
  socket.resume();
}

/** Returns how many of the bytes in `bytesWritten` the kernel has not taken yet, as far as they have left the stream. */
export function unsentBytes(socket: Socket): number {
  return handleOf(socket)?.writeQueueSize ?? 0;
}

/**
 * Stops reading at once, by the handle, as Node's own HTTP server does. A socket that is only paused continues to read until
 * 64 KiB or more are buffered.
 */
export function stopReading(socket: Socket): void {
  socket.pause();
  // Node resumes the socket after each response.
  socket.resume = () => socket;
  socket._read = () => {};
  const handle = handleOf(socket);
  if (handle?.reading !== true) return;
  handle.reading = false;
  handle.readStop?.();
}

/** Undoes `stopReading`, but the socket stays paused. */
export function readOn(socket: Socket): void {
  if (!Object.hasOwn(socket, "resume")) return;
  Reflect.deleteProperty(socket, "resume");
  Reflect.deleteProperty(socket, "_read");
  const handle = handleOf(socket);
  if (handle?.reading !== false) return;
  handle.reading = true;
  handle.readStart?.();
}
