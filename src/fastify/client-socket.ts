// A client's connection to the app, as far as headgate has to know it: who is on the other side, which exchanges are under
// way on it, and whether its last response is on its way. Node 24 tells nobody when a connection closes whose response waits
// behind another one, so the end of the connection ends its exchanges here.
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Peer } from "../core/client-address.ts";
import type { LocalReply } from "../core/local-reply.ts";
import type { Exchange, RuntimeRef } from "../exchange/exchange.ts";
import { endAndLinger, rejectOnSocket } from "../transport/socket-transport.ts";

export class ClientSocket {
  readonly peer: Peer;
  /** Behind a last response nothing is a request any more. */
  isClosing = false;
  readonly #socket: Socket;
  readonly #runtime: RuntimeRef;
  readonly #owner: { readonly lingerMs: number };
  readonly #open = new Set<Exchange>();
  /** To be sent behind the exchanges that are under way. */
  #rejection: LocalReply | null = null;

  constructor(socket: Socket, peer: Peer, runtime: RuntimeRef, owner: { lingerMs: number; lingering: Set<Socket> }) {
    this.#socket = socket;
    this.peer = peer;
    this.#runtime = runtime;
    this.#owner = owner;
    // Node calls this behind a last response, and would reset the connection if bytes of the client are unread.
    socket.destroySoon = () => {
      this.isClosing = true;
      owner.lingering.add(socket);
      endAndLinger(socket, owner.lingerMs);
    };
    socket.once("close", () => {
      owner.lingering.delete(socket);
      for (const exchange of this.#open) exchange.clientGone();
    });
  }

  begin(exchange: Exchange): void {
    this.#open.add(exchange);
  }

  end(exchange: Exchange): void {
    this.#open.delete(exchange);
    const reply = this.#rejection;
    if (this.#open.size > 0 || reply === null) return;
    this.#rejection = null;
    this.#reject(reply);
  }

  /** Answers bytes that are no request, or that break the body of one. */
  refuseBytes(reply: LocalReply): void {
    const torn = [...this.#open].find(({ body }) => (body as IncomingMessage).complete === false);
    if (torn !== undefined) torn.cancel(reply);
    else if (this.#open.size > 0) this.#rejection = reply;
    else this.#reject(reply);
  }

  /** Does nothing behind a last response: a reset could overtake it. */
  #reject(reply: LocalReply): void {
    if (this.isClosing || !this.#socket.writable) return;
    this.isClosing = true;
    rejectOnSocket(this.#socket, this.peer, reply, this.#runtime, this.#owner.lingerMs);
  }
}
