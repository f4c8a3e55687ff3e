// Knows which connections of a server are in the middle of a request, so that closing is quick and polite: idle ones
// end at once, also those with half a head (which Node would wait for), and busy ones end with their answer (which Node
// would keep alive). No answer within the grace: they are cut.
import type { Server, ServerResponse } from "node:http";
import { Server as NetServer, type Socket } from "node:net";

export class Connections {
  readonly #server: Server;
  readonly #open = new Set<Socket>();
  readonly #busy = new Map<Socket, ServerResponse>();
  #closing: Promise<void> | undefined;

  constructor(server: Server) {
    this.#server = server;
    server.on("connection", (socket: Socket) => {
      this.#open.add(socket);
      socket.once("close", () => this.#open.delete(socket));
    });
    server.on("request", (request, response) => {
      const { socket } = request;
      this.#busy.set(socket, response);
      if (this.#closing !== undefined) announceClose(response);
      response.once("close", () => {
        // A client that does not wait for answers has several under way: the newest of them is the last to close.
        if (this.#busy.get(socket) !== response) return;
        this.#busy.delete(socket);
        if (this.#closing !== undefined) socket.destroySoon();
      });
    });
  }

  isBusy(socket: Socket): boolean {
    return this.#busy.has(socket);
  }

  /** Resolves when every connection has ended. A second call waits for the first. */
  close(graceMs: number): Promise<void> {
    this.#closing ??= new Promise((resolve) => {
      const cut = setTimeout(() => this.#server.closeAllConnections(), graceMs);
      // Not the close of node:http: it destroys every connection whose answer has been handed over, written or not, and
      // so cuts a long answer short.
      NetServer.prototype.close.call(this.#server, () => {
        clearTimeout(cut);
        this.#server.close(); // nothing is left to cut; ends the timer that looks for slow requests
        resolve();
      });
      for (const socket of this.#open) {
        const response = this.#busy.get(socket);
        if (response === undefined) socket.destroy();
        else announceClose(response);
      }
    });
    return this.#closing;
  }
}

/** Without the field a client would send its next request into the closing. */
function announceClose(response: ServerResponse): void {
  if (!response.headersSent) response.setHeader("connection", "close");
}
