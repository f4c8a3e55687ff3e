// What both ways to read HTTP/1 share: how a socket ends so that its last response is read, and how much may wait.
import type { Socket } from "node:net";

/** How long bytes that nobody will read are taken in, so that the client gets to read the response (RFC 9112, 9.6). */
const lingerMs = 2_000;

/** How long a new connection is waited for before it is ended for being idle: a request follows at once. */
export const firstRequestMs = 300;

/** Beyond this nothing more is read until some of it has been answered. One read of the socket may be on top. */
export const maxWaitingBytes = 64 * 1024;

/**
 * Ends a socket so that what was written is read, whatever the client still sends: a socket that is destroyed with
 * unread bytes resets the connection, and the reset can overtake the response.
 */
export function endAndLinger(socket: Socket): void {
  // Node takes its own listener away when it hands a socket out (CONNECT); a reset would then end the process.
  socket.on("error", ignoreReset);
  socket.end();
  readOn(socket);
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once("close", () => clearTimeout(timer));
  socket.resume();
}

/** Keeps Node from reading on: it starts reading again after each response. */
export function stopReading(socket: Socket): void {
  socket.pause();
  socket.resume = () => socket;
}

/** Undoes `stopReading`: the socket's own method again. */
export function readOn(socket: Socket): void {
  Reflect.deleteProperty(socket, "resume");
}

export function ignoreReset(): void {}
