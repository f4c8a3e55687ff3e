// Connects the session of one HTTP/2 connection to its socket: passes received bytes to it, and writes all frames of one turn of
// the event loop with one call. Bytes that a turn does not process, and bytes that arrive while too much is unsent, are kept
// for a later turn.
// Starts no timers, and never ends the socket.
import type { Socket } from "node:net";
import type { Piece } from "../http2/responses.ts";
import type { Http2Event, Http2Session } from "../http2/session.ts";
import type { PeerTurn, TurnWaiter } from "./peer-turns.ts";
import type { TextWrites } from "./socket-writes.ts";
import { copyOf, type SharedReads } from "./sockets.ts";

/**
 * When a connection fails, all its streams close at once. Each may break off a request to the upstream, which takes about
 * 0.15 ms if the system still has much of its response.
 */
const maxClosedInTurn = 16;
/** Of a read, in addition to those of its frames. */
const http2ReadSteps = 8;

/** The connection that is driven. It may call `settle` and `settleLater` at any time. */
export interface DrivenConnection<Owner> {
  onEvent(event: Http2Event<Owner>): void;
  /** A stream of this owner is closed. */
  onStreamClosed(owner: Owner): void;
  /** The response of this owner may go on. */
  onStreamDrained(owner: Owner): void;
  /** What has happened so far is about to be written. */
  onSettling(): void;
  /** It has been written, or waits for the system to take it. */
  onSettled(): void;
}

export class Http2Driver<Owner> implements TurnWaiter {
  readonly session: Http2Session<Owner>;
  /** The system has not taken yet all that was written. */
  isFlushing = false;
  readonly #socket: Socket;
  readonly #connection: DrivenConnection<Owner>;
  readonly #turn: PeerTurn;
  /** For plain sockets. Null: with TLS, no write is complete at once. */
  readonly #textWrites: TextWrites | null;
  /** With this much unsent, nothing is read, because acknowledgements and responses would add to it. */
  readonly #maxUnsentBytes: number;
  /** The socket is read into a buffer that all connections share. */
  readonly #isReused: boolean;
  /** `settle` follows. */
  #isInTurn = false;
  #isSettlingLater = false;
  #isPaused = false;
  #isStopped = false;
  /** Read, but left for a later turn. */
  #held: Buffer | null = null;

  constructor(
    socket: Socket,
    session: Http2Session<Owner>,
    connection: DrivenConnection<Owner>,
    turn: PeerTurn,
    maxUnsentBytes: number,
    reads: SharedReads | null,
    textWrites: TextWrites | null,
  ) {
    this.#socket = socket;
    this.session = session;
    this.#connection = connection;
    this.#turn = turn;
    this.#textWrites = textWrites;
    this.#maxUnsentBytes = maxUnsentBytes;
    this.#isReused = reads?.take(socket, this.#onBytes) ?? false;
    if (!this.#isReused) socket.on("data", this.#onBytes);
  }

  /** Whether the system has taken all that was written, and nothing waits to be written. */
  get isFlushed(): boolean {
    return !this.isFlushing && !this.session.hasOutput;
  }

  /** Ignores what still comes. */
  stop(): void {
    this.#isStopped = true;
    this.#held = null;
  }

  /** Settles at the end of the turn. */
  settleLater(): void {
    if (this.#isInTurn || this.#isSettlingLater) return;
    this.#isSettlingLater = true;
    setImmediate(settleNow, this);
  }

  settleNow(): void {
    this.#isSettlingLater = false;
    this.settle();
  }

  /** Writes what the session has to send. Call it after anything that may have ended streams or produced frames. */
  settle(): void {
    const { session } = this;
    if (this.#isInTurn) return;
    this.#isInTurn = true;
    for (const { owner } of session.takeClosed(maxClosedInTurn))
      if (owner !== null) this.#connection.onStreamClosed(owner);
    for (const { owner } of session.takeDrained()) if (owner !== null) this.#connection.onStreamDrained(owner);
    this.#connection.onSettling();
    this.#flush();
    this.#isInTurn = false;
    // What has just been closed or may go on.
    if (session.hasClosed || session.hasDrained) this.settleLater();
    else this.#connection.onSettled();
  }

  /** Reads what was left for this turn, and then from the socket again. */
  continueTurn(): void {
    if (this.#isStopped || this.#socket.destroyed || !this.#mayRead()) return;
    const held = this.#held;
    this.#held = null;
    if (held !== null) this.#read(held, true);
    if (!this.#isPaused || this.#held !== null || this.session.isOver || !this.#mayRead()) return;
    this.#isPaused = false;
    this.#socket.resume();
  }

  readonly #onBytes = (bytes: Buffer): void => {
    this.#turn.onRead(http2ReadSteps, false);
    if (this.#isStopped || this.session.isOver) return;
    if (this.#held !== null) this.#held = Buffer.concat([this.#held, bytes]);
    else if (this.#mayRead()) this.#read(bytes, !this.#isReused);
    else this.#hold(bytes, !this.#isReused);
  };

  /** `isOwn`: nobody overwrites the bytes. */
  #read(bytes: Buffer, isOwn: boolean): void {
    const { session } = this;
    this.#isInTurn = true;
    this.#turn.spend(0);
    session.feed(bytes);
    for (let event = session.next(); event !== null; event = session.next()) this.#connection.onEvent(event);
    this.#isInTurn = false;
    const unread = session.takeUnread();
    if (unread.length > 0 && !session.isOver) {
      this.#hold(unread, isOwn);
      this.#turn.wait(this);
    }
    this.settle();
  }

  #mayRead(): boolean {
    return !this.isFlushing || this.session.waitingBytes < this.#maxUnsentBytes;
  }

  /** Keeps bytes for a later turn, and reads nothing until then. */
  #hold(bytes: Buffer, isOwn: boolean): void {
    this.#held = isOwn ? bytes : copyOf(bytes);
    this.#pause();
  }

  #pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
  }

  #flush(): void {
    const socket = this.#socket;
    while (!this.isFlushing && this.session.hasOutput) {
      const pieces = this.session.takeOutput();
      if (pieces.length === 0 || socket.destroyed || socket.writableEnded) return;
      this.isFlushing = !this.#write(pieces);
    }
    if (this.isFlushing && !this.#isPaused && !this.#mayRead()) this.#pause();
  }

  /** Returns whether the system has taken all. If not, `#onFlushed` follows. */
  #write(pieces: readonly Piece[]): boolean {
    const socket = this.#socket;
    const last = pieces.length - 1;
    const end = pieces[last] ?? "";
    if (last === 0 && typeof end === "string" && this.#textWrites !== null) {
      if (this.#textWrites.write(socket, end)) return true;
      socket.write("", "latin1", this.#onFlushed);
      return false;
    }
    if (last > 0) socket.cork();
    for (let i = 0; i < last; i += 1) socket.write(pieces[i] ?? "", "latin1");
    socket.write(end, "latin1", this.#onFlushed);
    if (last > 0) socket.uncork();
    return false;
  }

  readonly #onFlushed = (error?: Error | null): void => {
    if (error !== undefined && error !== null) return;
    this.isFlushing = false;
    this.settle();
    this.continueTurn();
  };
}

function settleNow<Owner>(driver: Http2Driver<Owner>): void {
  driver.settleNow();
}
