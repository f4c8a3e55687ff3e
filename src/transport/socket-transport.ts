// Sends a last response on a socket without a request: the bytes could not be parsed, the head took too long, or there
// are too many connections. The response has the same headers as every other, and the connection is closed after it.
import type { Socket } from "node:net";
import type { Peer } from "../core/client-address.ts";
import { ignoreError } from "../core/failure.ts";
import { type HeaderLines, serializeHead } from "../core/headers.ts";
import { lingerMs } from "../core/http-bounds.ts";
import type { LocalReply } from "../core/local-reply.ts";
import { Exchange, type RuntimeRef } from "../exchange/exchange.ts";
import { WholeReplyTransport } from "../exchange/whole-reply-transport.ts";

/**
 * Replies and closes the connection. Returns the exchange, which may still wait for the quota; null: the socket is
 * closed.
 */
export function rejectOnSocket(socket: Socket, peer: Peer, reply: LocalReply, runtime: RuntimeRef): Exchange | null {
  if (!socket.writable) {
    socket.destroy();
    return null;
  }
  const head = { peer, rawHeaders: [], method: "", target: "", httpVersion: "1.1" };
  const transport = new SocketTransport(socket);
  const exchange = new Exchange(head, transport, runtime);
  transport.exchange = exchange;
  exchange.reject(reply);
  return exchange;
}

class SocketTransport extends WholeReplyTransport {
  override readonly bodyBytesReceived = 0;
  override bytesSent = 0;
  readonly #socket: Socket;

  constructor(socket: Socket) {
    super();
    this.#socket = socket;
  }

  get isGone(): boolean {
    return !this.#socket.writable;
  }

  abort(): void {
    this.#socket.destroy();
  }

  protected sendWhole(status: number, reason: string, lines: HeaderLines, body: string): void {
    const text = serializeHead(status, reason, `${lines}Connection: close\r\n`) + body;
    this.bytesSent = text.length;
    this.#socket.write(text, "latin1");
    endAndLinger(this.#socket);
  }
}

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
