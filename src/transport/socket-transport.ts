// Sends a last response on a socket without a request: the bytes could not be parsed, the head took too long, or there
// are too many connections. The response has the same headers as every other, and the connection is closed after it.
import type { Socket } from "node:net";
import type { Peer } from "../core/client-address.ts";
import { ignoreError } from "../core/failure.ts";
import { type HeaderLines, serializeHead } from "../core/headers.ts";
import { closeMs, lingerSilenceMs } from "../core/http-bounds.ts";
import type { LocalReply } from "../core/local-reply.ts";
import { Exchange, type RuntimeRef } from "../exchange/exchange.ts";
import { WholeReplyTransport } from "../exchange/whole-reply-transport.ts";

/** Replies and closes the connection. Returns the exchange, which may still wait for the quota; null: the socket is closed. */
export function rejectOnSocket(
  socket: Socket,
  peer: Peer,
  reply: LocalReply,
  runtime: RuntimeRef,
  lingerMs = closeMs,
): Exchange | null {
  if (!socket.writable) {
    socket.destroy();
    return null;
  }
  const head = { peer, rawHeaders: [], method: "", target: "", httpVersion: "1.1" as const };
  const transport = new SocketTransport(socket, lingerMs);
  const exchange = new Exchange(head, transport, runtime);
  transport.exchange = exchange;
  exchange.reject(reply);
  return exchange;
}

class SocketTransport extends WholeReplyTransport {
  override readonly bodyBytesReceived = 0;
  override bytesSent = 0;
  readonly #socket: Socket;
  readonly #lingerMs: number;

  constructor(socket: Socket, lingerMs: number) {
    super();
    this.#socket = socket;
    this.#lingerMs = lingerMs;
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
    endAndLinger(this.#socket, this.#lingerMs);
  }
}

/**
 * Ends a socket, and reads and discards what the client still sends, for `lingerMs` at most (RFC 9112, 9.6). Destroying a socket
 * with unread bytes resets the connection, and the reset can overtake the response. A client may send all of its request before
 * it reads the response.
 */
export function endAndLinger(socket: Socket, lingerMs: number): void {
  const close = (): void => void socket.destroy();
  const timer = setTimeout(close, lingerMs);
  socket.on("error", ignoreError).once("close", () => clearTimeout(timer));
  // Each read begins this time again.
  socket.setTimeout(Math.min(lingerMs, lingerSilenceMs), close);
  socket.end();
  socket.resume();
}
