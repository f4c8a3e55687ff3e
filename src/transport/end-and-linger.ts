// Closes a connection of HTTP/1 so that the client reads its last response.
import type { Socket } from "node:net";
import { ignoreError } from "../core/failure.ts";
import { lingerMs } from "../exchange/http1-bounds.ts";

/**
 * Ends a socket, and reads and discards what the client still sends: destroying a socket with unread bytes resets the
 * connection, and the reset can overtake the response.
 */
export function endAndLinger(socket: Socket): void {
  socket.on("error", ignoreError);
  socket.end();
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once("close", () => clearTimeout(timer));
  socket.resume();
}
