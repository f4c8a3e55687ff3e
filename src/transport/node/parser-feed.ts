// Feeds Node's parser in portions. Node parses a whole read of 64 KiB in one call, which can be 10,000 chunks or 3,600
// requests, even if the connection is closed after the first. Here no more than some hundred are parsed in one turn of
// the loop, none after the connection is done, and none while the body that the parser is in is not read, or while
// enough requests wait. What is not parsed yet is kept as bytes, up to a bound.
import type { Socket } from "node:net";
import { maxHeadBytes } from "../../core/head-bounds.ts";
import { JoinedPieces } from "../../exchange/joined-pieces.ts";
import { maxWaitingBytes, readOn, stopReading } from "../http1-socket.ts";

export interface FeedOwner {
  /** What comes now is ignored. */
  readonly isDone: boolean;
  /** Heads and pieces of bodies that have been parsed. */
  readonly parsedCount: number;
  /** So many bytes belong to a body of known length, and make one piece. */
  readonly leftBytes: number;
  /** May call `goOn` later if it returns false. */
  mayParse(): boolean;
}

/** A chunk has two line ends and a head as many or more, so a portion has at most 256 of them. */
const maxLinesInPortion = 512;

/** Bounds the heads that wait, and what of a body is buffered by Node's message. */
const maxPortionBytes = 16 * 1024;

/** Heads and pieces together: with those of the portion that exceeds it about 3 ms. */
const maxParsedInTurn = 250;

/** Node pauses the parser too, and must not be given bytes meanwhile. It has no public name for that. */
type NodeSocket = Socket & { readonly _paused?: boolean };

export class ParserFeed {
  readonly #socket: NodeSocket;
  readonly #owner: FeedOwner;
  readonly #parse: (bytes: Buffer) => void;
  /** Not parsed yet. */
  #rest: Buffer | null = null;
  /** Received after `#rest`. */
  readonly #next = new JoinedPieces();
  /** The first line has not ended within the bytes that a head may have. */
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
    // Node notices this listener and reads the socket as a stream from now on.
    socket.on("data", this.#onData).on("drain", this.goOn);
  }

  /** Parses on in the next turn, if the owner allows it then. */
  readonly goOn = (): void => {
    if (this.#rest === null || this.#isScheduled || this.#isReleased) return;
    this.#isScheduled = true;
    setImmediate(this.#onTurn);
  };

  /** Returns what has not been parsed. The socket is read by somebody else, or by nobody. */
  release(): Buffer {
    const socket = this.#socket;
    this.#isReleased = true;
    socket.off("data", this.#onData).off("drain", this.goOn);
    if (this.#isStopped) readOn(socket);
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

  /** At a quarter of what may wait, since one more read may come. The client's end is noticed before that. */
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

/** `from` bytes of the body that is being parsed, which are one piece, and what follows within the bound on lines. */
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
