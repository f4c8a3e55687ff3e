// Feeds Node's parser in portions. By itself, Node parses a whole read of 64 KiB in one call, which can be 10,000
// chunks or 3,600 requests, even if the connection is closed after the first. The feed parses at most a few hundred in
// one turn of the event loop. It parses nothing after the connection is done, while nobody reads the body that is being
// parsed, or while enough requests wait. Bytes that are not parsed yet are kept, up to a bound.
import type { Socket } from "node:net";
import { maxHeadBytes } from "../../core/head-bounds.ts";
import { maxWaitingBytes } from "../../exchange/http1-bounds.ts";
import { JoinedPieces } from "../../exchange/joined-pieces.ts";
import { readOn, stopReading } from "../http1-socket.ts";

export interface FeedOwner {
  /** Everything that is received now is ignored. */
  readonly isDone: boolean;
  /** The number of heads and pieces of bodies that have been parsed. */
  readonly parsedCount: number;
  /** The bytes that are left of a body with a known length. They can be parsed as one piece. */
  readonly leftBytes: number;
  /** An owner that returns false calls `goOn` later. */
  mayParse(): boolean;
}

/** Each chunk and each head has at least two line ends, so a portion has at most 256 of them. */
const maxLinesInPortion = 512;

/** Bounds the heads that wait, and the part of a body that Node's message buffers. */
const maxPortionBytes = 16 * 1024;

/** Heads and pieces together. With those of the portion that exceeds it, a turn takes about 3 ms. */
const maxParsedInTurn = 250;

/** Node also pauses the parser, which must not be given bytes meanwhile. `_paused` says so; it is not public. */
type NodeSocket = Socket & { readonly _paused?: boolean };

export class ParserFeed {
  readonly #socket: NodeSocket;
  readonly #owner: FeedOwner;
  readonly #parse: (bytes: Buffer) => void;
  /** Not parsed yet. */
  #rest: Buffer | null = null;
  /** Received after `#rest`. */
  readonly #next = new JoinedPieces();
  /** The first line of the connection has not ended within the bytes that a head may have. */
  isFirstLine = true;
  #parsedBytes = 0;
  #isRunning = false;
  #isScheduled = false;
  #isStopped = false;
  #isReleased = false;

  /** `socket` has been given to Node's HTTP server, which listens to its data. */
  constructor(socket: Socket, owner: FeedOwner) {
    this.#socket = socket;
    this.#owner = owner;
    this.#parse = socket.listeners("data").at(-1) as (bytes: Buffer) => void;
    socket.off("data", this.#parse);
    // Because of this listener, Node reads the socket as a stream from now on.
    socket.on("data", this.#onData).on("drain", this.goOn);
  }

  /** Continues to parse in the next turn of the event loop, if the owner allows it then. */
  readonly goOn = (): void => {
    if (this.#rest === null || this.#isScheduled || this.#isReleased) return;
    this.#isScheduled = true;
    setImmediate(this.#onTurn);
  };

  /** Ends the feed, and returns the bytes that have not been parsed. It does not read the socket any more. */
  release(): Buffer {
    const socket = this.#socket;
    this.#isReleased = true;
    socket.off("data", this.#onData).off("drain", this.goOn);
    if (this.#isStopped) readOn(socket);
    this.#isStopped = false;
    const rest = this.#rest ?? nothing;
    this.#rest = null;
    return this.#next.length === 0 ? rest : Buffer.concat([rest, this.#next.take()]);
  }

  readonly #onData = (bytes: Buffer): void => {
    if (this.#rest === null) this.#rest = bytes;
    else this.#next.add(bytes);
    if (!this.#isScheduled) this.#run();
    this.#boundRest();
  };

  readonly #onTurn = (): void => {
    this.#isScheduled = false;
    this.#run();
  };

  #run(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    const until = this.#owner.parsedCount + maxParsedInTurn;
    while (this.#rest !== null && this.#mayGoOn()) {
      if (this.#owner.parsedCount > until) {
        this.goOn();
        break;
      }
      const portion = this.#takePortion(this.#rest);
      if (this.isFirstLine) this.#lookForLineEnd(portion);
      this.#parse(portion);
    }
    this.#isRunning = false;
    if (this.#rest === null && this.#isStopped) this.#readOn();
  }

  #lookForLineEnd(portion: Buffer): void {
    const at = portion.indexOf(0x0a);
    if (at !== -1 && this.#parsedBytes + at < maxHeadBytes) this.isFirstLine = false;
    this.#parsedBytes += portion.length;
  }

  #mayGoOn(): boolean {
    const socket = this.#socket;
    if (socket.destroyed || this.#owner.isDone) {
      this.#rest = null;
      this.#next.take();
      return false;
    }
    return socket._paused !== true && this.#owner.mayParse();
  }

  #takePortion(rest: Buffer): Buffer {
    const end = portionEnd(rest, this.#owner.leftBytes);
    if (end < rest.length) {
      this.#rest = rest.subarray(end);
      return rest.subarray(0, end);
    }
    this.#rest = this.#next.length > 0 ? this.#next.take() : null;
    return rest;
  }

  /** Stops reading at a quarter of the bound, because one more read may follow. While it reads, it notices a FIN. */
  #boundRest(): void {
    if (this.#isStopped || this.#rest === null) return;
    if (this.#rest.length + this.#next.length < maxWaitingBytes / 4) return;
    this.#isStopped = true;
    stopReading(this.#socket);
  }

  #readOn(): void {
    this.#isStopped = false;
    readOn(this.#socket);
    this.#socket.resume();
  }
}

const nothing = Buffer.alloc(0);

/**
 * Returns the end of the next portion: the `from` bytes that are left of a body, and what follows within the bounds.
 */
function portionEnd(bytes: Buffer, from: number): number {
  const most = Math.min(bytes.length, from + maxPortionBytes);
  let end = from;
  for (let lines = 0; lines < maxLinesInPortion; lines += 1) {
    const at = end < most ? bytes.indexOf(0x0a, end) : -1;
    if (at === -1 || at >= most) return most;
    end = at + 1;
  }
  return end;
}
