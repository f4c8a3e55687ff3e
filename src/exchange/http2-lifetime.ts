// Ends an HTTP/2 session that has been idle too long, or on demand, with a GOAWAY that names the last stream, so that
// no request is lost. If the peer then keeps the connection open, it is closed.
import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import { clearForgottenTimeout } from "./forgotten-timeout.ts";

export interface Http2Timeouts {
  /** Maximum time until the first stream. */
  readonly firstMs: number;
  /** Maximum time without a stream after that. */
  readonly idleMs: number;
  /** How long a peer may keep the connection open after the GOAWAY and its last stream. */
  readonly lingerMs: number;
}

export const defaultLingerMs = 2_000;

export class Http2Lifetime {
  readonly #session: ServerHttp2Session;
  /** The TCP connection, which stays open after the session is closed as long as the peer keeps its side open. */
  readonly #tcp: Socket;
  readonly #idleMs: number;
  readonly #lingerMs: number;
  #open = 0;
  #isEnding = false;
  /** The current timer closes the connection, whatever happens until then. */
  #isBrokenOff = false;
  #timer: NodeJS.Timeout | null = null;

  constructor(session: ServerHttp2Session, tcp: Socket, { firstMs, idleMs, lingerMs }: Http2Timeouts) {
    this.#session = session;
    this.#tcp = tcp;
    this.#idleMs = idleMs;
    this.#lingerMs = lingerMs;
    this.#endIn(firstMs);
    tcp.once("close", () => {
      clearTimeout(this.#timer ?? undefined);
      clearForgottenTimeout(session);
    });
  }

  /** The number of open streams. */
  get openCount(): number {
    return this.#open;
  }

  streamOpened(): void {
    this.#open += 1;
    this.#stopTimer();
  }

  streamClosed(): void {
    this.#open -= 1;
    if (this.#open > 0) return;
    if (this.#isEnding || this.#session.destroyed) this.#linger();
    else this.#endIn(this.#idleMs);
  }

  /**
   * Sends the GOAWAY and lets open streams finish. Streams that the client opens before it receives the GOAWAY are
   * ignored; it may send them again elsewhere (RFC 9113, 6.8). A first GOAWAY without a last stream would let them
   * finish, but Node's parser accepts no stream after either.
   */
  end(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.#stopTimer();
    // After a violation of the protocol Node closes a session itself, but waits forever for a peer that reads nothing.
    if (!this.#session.destroyed) this.#session.close();
    if (this.#open === 0) this.#linger();
  }

  /**
   * Sends a GOAWAY with an error, and closes the connection later, so that the peer can read it. Streams that end in
   * the meantime do not delay this.
   */
  breakOff(errorCode: number): void {
    if (this.#isBrokenOff) return;
    this.#isEnding = true;
    if (!this.#session.destroyed) this.#session.goaway(errorCode);
    this.#linger();
    this.#isBrokenOff = true;
  }

  /**
   * Call it when nothing has moved on any stream for longer than each may wait. Closes the connection, unless its
   * streams end now. If nghttp2 finds an error of the connection after a GOAWAY was sent or received, Node reads and
   * writes no more and does not say so: such a session keeps its streams, even if the peer closes the connection.
   */
  endStalled(): void {
    if (this.#open > 0) this.#linger();
  }

  #endIn(timeoutMs: number): void {
    this.#setTimer(() => this.end(), timeoutMs);
  }

  #linger(): void {
    this.#setTimer(() => this.#tcp.destroy(), this.#lingerMs);
  }

  #setTimer(act: () => void, timeoutMs: number): void {
    this.#stopTimer();
    if (!this.#isBrokenOff && !this.#tcp.destroyed) this.#timer = setTimeout(act, timeoutMs);
  }

  #stopTimer(): void {
    if (this.#isBrokenOff) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }
}
