// One client connection: who is at its other end, whose turn it is, and how it ends. Pipelined requests take turns,
// because Node hands them out all at once and RFC 9112, 9.3.2 allows that only for safe methods. It ends gently: a
// socket that is destroyed with unread bytes resets the connection, and the reset can overtake the answer.
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { Peer } from "../../core/client-address.ts";
import type { Accepted } from "../../listener/acceptor.ts";
import type { NodeHttp1Exchange } from "./node-http1-exchange.ts";

/** How long bytes that nobody will read are taken in, so that the client gets to read the answer (RFC 9112, 9.6). */
const lingerMs = 2_000;

/** How long a new connection is waited for before it is ended for being idle: a request follows at once. */
export const firstRequestMs = 300;

/** More than any client has use for; what waits is kept in memory. The last of them ends the connection. */
const maxPipelined = 100;

/** Beyond this nothing more is read until some of it has had its turn. One read of the socket may be on top. */
export const maxWaitingBytes = 64 * 1024;

/** What one read hands out beyond this is not kept. Only heads of very many very short fields get there. */
const maxKeptBytes = 4 * maxWaitingBytes;

/** What a string of a head takes in memory besides its bytes. */
const stringBytes = 32;

/** An empty line, which some clients send behind a body (RFC 9112, 2.2): not the beginning of a head. */
const emptyLineBytes = 2;

/** What waits for its turn: a request, or an answer to bytes that are none. */
export interface Turn {
  /** Null for what has no body to come. */
  readonly req: IncomingMessage | null;
  readonly start: () => void;
}

export interface ConnectionOptions {
  readonly maxTurns: number;
  readonly idleTimeoutMs: number;
}

/** Of one that is only told that it is refused. */
const unbounded: ConnectionOptions = { maxTurns: Number.POSITIVE_INFINITY, idleTimeoutMs: Number.POSITIVE_INFINITY };

export class Connection {
  readonly socket: Socket;
  /** What it is called where no HTTP is spoken: the connection beneath TLS, or the same. */
  readonly tcp: Socket;
  readonly peer: Peer;
  readonly scheme: "http" | "https";
  /** How long it may be without a request. */
  readonly idleTimeoutMs: number;
  /** Told when the first turn begins and when the last one is over. */
  onTurns: (isIdle: boolean) => void = () => {};
  /** Bytes of a PROXY header, which the HTTP parser never saw. */
  readonly #headerBytes: number;
  readonly #maxTurns: number;
  /** The request that is being answered. */
  active: NodeHttp1Exchange | null = null;
  /** A last answer is on its way: whatever else arrives is not a request any more. */
  isClosing = false;
  #isTaken = false;
  #isFull = false;
  #turns = 0;
  #waitingBytes = 0;
  /** Bytes read when the last turn ended: if there are more now, a head is on its way. */
  #bytesAtRest = 0;
  #endsWhenIdle = false;
  #waiting: Turn[] = [];
  #unread: IncomingMessage | null = null;

  constructor({ socket, tcp, peer, headerBytes }: Accepted, bounds: ConnectionOptions = unbounded) {
    this.socket = socket;
    this.tcp = tcp;
    this.peer = peer;
    this.scheme = socket instanceof TLSSocket ? "https" : "http";
    this.#headerBytes = headerBytes;
    this.#maxTurns = bounds.maxTurns;
    this.idleTimeoutMs = bounds.idleTimeoutMs;
    this.#bytesAtRest = headerBytes;
    // Node calls this when a last answer is written, and would close the socket at once.
    socket.destroySoon = () => {
      this.#unread?.removeAllListeners("data");
      this.#unread?.resume();
      endAndLinger(socket);
    };
  }

  /** Bytes of HTTP. */
  get receivedBytes(): number {
    return this.socket.bytesRead - this.#headerBytes;
  }

  get activeCount(): number {
    return this.active === null ? 0 : 1;
  }

  /** Between two requests, or before the first. */
  get isIdle(): boolean {
    return !this.#isTaken;
  }

  /**
   * It has had as many as one connection may, or more was pipelined than is kept: the answer says that the connection
   * ends with it.
   */
  get isLastTurn(): boolean {
    return this.#turns >= this.#maxTurns || (this.#isFull && this.#waiting.length === 0);
  }

  /**
   * Starts it now, or when everything before it has been answered, or never if too many wait (RFC 9112, 9.3.2 allows
   * it).
   */
  inTurn(turn: Turn): void {
    if (!this.#isTaken) {
      this.#isTaken = true;
      this.onTurns(false);
      this.#start(turn);
    } else if (!this.#isFull && this.#waiting.length < maxPipelined && this.#waitingBytes < maxKeptBytes) {
      this.#waiting.push(turn);
      this.#waitingBytes += weight(turn);
      if (this.#waitingBytes >= maxWaitingBytes) this.#stopReading();
    } else {
      this.#isFull = true;
      // Node keeps the message until the connection ends.
      if (turn.req !== null) turn.req.rawHeaders.length = 0;
      this.#stopReading();
    }
  }

  /** The body of the last request that waits broke off: it cannot be forwarded, and `start` answers in its place. */
  replaceBroken(start: () => void): void {
    const last = this.#waiting.at(-1)?.req;
    if (last !== undefined && last?.complete === false) this.#dropLast();
    this.inTurn({ req: null, start });
  }

  /** Starts what waits next, unless the answer before was the last. */
  endTurn(): void {
    this.active = null;
    if (this.isClosing || !this.socket.writable) this.#waiting = [];
    const next = this.#waiting.shift();
    if (next !== undefined) {
      this.#readOnAfter(next);
      this.#start(next);
    } else {
      this.#isTaken = false;
      this.#bytesAtRest = this.socket.bytesRead;
      this.onTurns(true);
      if (this.#endsWhenIdle && this.socket.writable) endAndLinger(this.socket);
    }
  }

  #start(turn: Turn): void {
    this.#turns += 1;
    turn.start();
  }

  #dropLast(): void {
    const last = this.#waiting.pop();
    if (last !== undefined) this.#waitingBytes -= weight(last);
  }

  /** Node starts reading again after each answer; here nothing more is wanted before there is room for it. */
  #stopReading(): void {
    this.socket.pause();
    this.socket.resume = () => this.socket;
  }

  /** Before `next` starts: it may have a body that is still to come. */
  #readOnAfter(next: Turn): void {
    const wasHeld = this.#waitingBytes >= maxWaitingBytes;
    this.#waitingBytes -= weight(next);
    if (this.#isFull || !wasHeld || this.#waitingBytes >= maxWaitingBytes) return;
    readOn(this.socket);
    this.socket.resume();
  }

  /**
   * Ends now if nothing is under way, else with what is: a head that has begun, if it is whole in its time, or an
   * answer that promised to stay.
   */
  endWhenIdle(headTimeoutMs: number): void {
    this.#endsWhenIdle = true;
    // Whoever has just connected is about to ask for something, and would take the end for a failure.
    if (this.receivedBytes === 0) this.#after(firstRequestMs, () => this.#endIdle(headTimeoutMs));
    else this.#endIdle(headTimeoutMs);
  }

  #endIdle(headTimeoutMs: number): void {
    const { socket } = this;
    if (!this.isIdle || !socket.writable) return;
    if (socket.bytesRead - this.#bytesAtRest <= emptyLineBytes) {
      endAndLinger(socket);
      return;
    }
    // Longer than it takes to notice a slow head, which is answered. What is left then sends empty lines.
    this.#after(headTimeoutMs + 1_000, () => this.isIdle && socket.writable && endAndLinger(socket));
  }

  #after(delayMs: number, act: () => void): void {
    const timer = setTimeout(act, delayMs);
    this.socket.once("close", () => clearTimeout(timer));
  }

  /** The answer being written is the last; `unread` is a message whose body nobody will read. */
  endAfterAnswer(unread: IncomingMessage | null): void {
    this.isClosing = true;
    this.#unread = unread;
  }

  /** Breaks it, so that no client can take what it has read for the whole: with TLS, a plain end could be one. */
  reset(): void {
    this.tcp.resetAndDestroy();
  }

  /** Writes a last answer past Node's response objects, for bytes that never became a request. */
  endWith(answer: string): void {
    this.isClosing = true;
    this.socket.write(answer, "latin1");
    endAndLinger(this.socket);
  }
}

/** Ends it so that what was written is read, whatever the client still sends. */
export function endAndLinger(socket: Socket): void {
  // Node takes its own listener away when it hands a socket out (CONNECT); a reset would then end the process.
  socket.on("error", ignoreReset);
  socket.end();
  readOn(socket);
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once("close", () => clearTimeout(timer));
  socket.resume();
}

/** Undoes #stopReading: the socket's own method again. */
function readOn(socket: Socket): void {
  Reflect.deleteProperty(socket, "resume");
}

function weight({ req }: Turn): number {
  const text = req === null ? [] : [req.url ?? "", ...req.rawHeaders];
  return text.reduce((bytes, { length }) => bytes + length + stringBytes, 0);
}

function ignoreReset(): void {}
