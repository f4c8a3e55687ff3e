// How long a session of HTTP/2 lives: when it has been idle for too long, or is told to, it ends with a GOAWAY that
// names the last stream, so that no request is lost; if the peer then keeps the connection open, it is closed.
import type { ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";

export interface Http2Timeouts {
  /** How long a new connection may wait with its first stream. */
  readonly firstMs: number;
  /** How long it may be without a stream later. */
  readonly idleMs: number;
}

/** How long a peer may keep the connection open after the GOAWAY and its last stream. */
const lingerMs = 2_000;

export class Http2Lifetime {
  readonly #session: ServerHttp2Session;
  /** The TCP connection. It outlives a session that was closed, for as long as the peer keeps its side open. */
  readonly #tcp: Socket;
  readonly #idleMs: number;
  #open = 0;
  #isEnding = false;
  #timer: NodeJS.Timeout | null = null;

  constructor(session: ServerHttp2Session, tcp: Socket, { firstMs, idleMs }: Http2Timeouts) {
    this.#session = session;
    this.#tcp = tcp;
    this.#idleMs = idleMs;
    this.#endIn(firstMs);
    tcp.once("close", () => this.#stopTimer());
  }

  /** Streams that are open. */
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
   * Sends the GOAWAY: what crosses it has not been looked at, and the client may send it again elsewhere (RFC 9113,
   * 6.8). Streams that are open finish. No GOAWAY without a last stream goes before it, which would let clients finish
   * what they are sending: Node's parser takes no stream after either.
   */
  end(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.#stopTimer();
    // Node ends a session by itself for what breaks the protocol, and waits for a peer that reads nothing.
    if (!this.#session.destroyed) this.#session.close();
    if (this.#open === 0) this.#linger();
  }

  /** Sends a GOAWAY with an error; the peer gets to read it before the connection is closed. */
  breakOff(errorCode: number): void {
    this.#isEnding = true;
    this.#session.goaway(errorCode);
    this.#linger();
  }

  #endIn(timeoutMs: number): void {
    this.#stopTimer();
    if (!this.#tcp.destroyed) this.#timer = setTimeout(() => this.end(), timeoutMs);
  }

  #linger(): void {
    this.#stopTimer();
    if (!this.#tcp.destroyed) this.#timer = setTimeout(() => this.#tcp.destroy(), lingerMs);
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }
}
