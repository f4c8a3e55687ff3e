// One client connection: who is at its other end, and which request it is answering. Closing one gently is here as well:
// a socket that is destroyed with unread bytes resets the connection, and the reset can overtake the answer.
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Peer } from "../core/client-address.ts";
import type { ActiveRequest } from "./active-request.ts";

/** How long bytes that nobody will read are taken in, so that the client gets to read the answer (RFC 9112, 9.6). */
const lingerMs = 2_000;

export class Connection {
  readonly socket: Socket;
  readonly peer: Peer;
  /** The request that is being answered; Node starts the next one of a pipeline only when it is done. */
  active: ActiveRequest | null = null;
  /** A last answer is on its way: whatever else arrives is not a request any more. */
  isClosing = false;

  constructor(socket: Socket, peer: Peer) {
    this.socket = socket;
    this.peer = peer;
  }

  /** Ends the connection after what has been written; `unread` is a message whose body nobody will read. */
  closeGently(unread: IncomingMessage | null): void {
    this.isClosing = true;
    // Node calls this when the last response is written, and would close the socket at once.
    this.socket.destroySoon = () => {
      unread?.removeAllListeners("data");
      unread?.resume();
      endAndLinger(this.socket);
    };
  }

  /** Writes a last answer past Node's response objects, for bytes that never became a request. */
  endWith(answer: string): void {
    this.isClosing = true;
    this.socket.write(answer, "latin1");
    endAndLinger(this.socket);
  }
}

function endAndLinger(socket: Socket): void {
  socket.end();
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once("close", () => clearTimeout(timer));
  socket.resume();
}
