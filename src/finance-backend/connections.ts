// Knows which connections of a server have a request in progress, so that closing is quick and loses no response: idle
// connections end at once, also those with half a head (which Node would wait for), and busy ones end with their response
// (which Node would keep alive). After the grace period they are broken off.
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
        // A client that pipelines has several requests in progress; the newest response closes last.
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
      // Not the close of node:http: it destroys every connection whose response was handed over, written or not, and so
      // truncates a long response.
      NetServer.prototype.close.call(this.#server, () => {
        clearTimeout(cut);
        this.#server.close(); // no connection is left; ends the timer that checks for slow requests
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

/** Without the field a client would send its next request on the closing connection. */
function announceClose(response: ServerResponse): void {
  if (!response.headersSent) response.setHeader("connection", "close");
}
