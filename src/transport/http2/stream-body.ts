// The body of a request over HTTP/2. While it is read, its bytes are passed on at the end of the turn; what nobody reads yet
// is kept in one piece. The window of its stream opens as the bytes are passed on, so a client cannot send more than it holds.
import { PieceBudget, progressOf } from "../../core/http-bounds.ts";
import { JoinedPieces } from "../../core/joined-pieces.ts";
import { type LocalReply, localReplies } from "../../core/local-reply.ts";
import type { BodyReader, PushedBody } from "../../exchange/transport.ts";

export interface StreamBodyOwner {
  /** The body cannot be read to its end. */
  cancel(reply: LocalReply): void;
  /** So many bytes are not kept any more. */
  used(bytes: number): void;
}

export class StreamBody implements PushedBody {
  readonly #owner: StreamBodyOwner;
  readonly #turn: TurnPieces;
  readonly #pieces: PieceBudget;
  reader: BodyReader | null = null;
  destroyed = false;
  receivedBytes = 0;
  #isComplete = false;
  /** While it flows, all its bytes are in the turn's buffer, otherwise all are in `#waiting`. So they stay in order. */
  #isFlowing = false;
  readonly #waiting = new JoinedPieces();
  /** Of all that waits. */
  #progressBytes = 0;

  constructor(owner: StreamBodyOwner, turn: TurnPieces, nowMs: () => number) {
    this.#owner = owner;
    this.#turn = turn;
    this.#pieces = new PieceBudget(nowMs);
  }

  /** The bytes are overwritten afterwards. */
  receive(bytes: Buffer, isEnd: boolean): void {
    this.receivedBytes += bytes.length;
    if (!this.destroyed && bytes.length > 0 && !this.#pieces.take(bytes.length)) {
      this.#owner.cancel(localReplies.smallPieces);
    }
    this.#progressBytes += progressOf(bytes.length);
    // To make room, bytes are passed on, and their reader may pause or destroy this body.
    if (this.#isFlowing && bytes.length > 0) this.#turn.makeRoom(this, bytes.length);
    if (!this.#isFlowing) this.#keep(bytes);
    else if (bytes.length > 0) this.#turn.add(this, bytes);
    if (!isEnd) return;
    this.#isComplete = true;
    if (this.#turn.has(this)) this.#turn.pass();
    else if (this.#isFlowing) this.#pass(nothing);
  }

  /** Takes the bytes from the turn's buffer, which are overwritten afterwards. */
  passJoined(bytes: Buffer): void {
    if (this.#isFlowing) this.#pass(bytes);
    else this.#keep(bytes);
  }

  pause(): void {
    this.#isFlowing = false;
    if (this.#turn.has(this)) this.#turn.pass();
  }

  resume(): void {
    this.#isFlowing = true;
    if (this.#waiting.length === 0 && !this.#isComplete) return;
    this.#pass(this.#waiting.take());
  }

  /** Frees what waits, and takes what still comes without passing it on. */
  destroy(): void {
    this.destroyed = true;
    this.#isFlowing = false;
    this.reader = null;
    if (this.#turn.has(this)) this.#turn.pass();
    this.#owner.used(this.#waiting.take().length);
  }

  #keep(bytes: Buffer): void {
    if (this.destroyed) this.#owner.used(bytes.length);
    else if (bytes.length > 0) this.#waiting.add(bytes);
  }

  #pass(bytes: Buffer): void {
    const progressBytes = this.#progressBytes;
    this.#progressBytes = 0;
    const isLast = this.#isComplete && this.#waiting.length === 0;
    if (bytes.length > 0) this.reader?.onData(bytes, progressBytes, isLast);
    else if (isLast) this.reader?.onEnd();
    this.#owner.used(bytes.length);
  }
}

const nothing = Buffer.alloc(0);

/** As much as one read of a socket. */
const memoryBytes = 64 * 1024;

/**
 * Joins the pieces of a body that come within one turn of the event loop. TLS delivers one read in records of at most
 * 16 KiB, DATA frames cut these again, and each piece would be a write to the upstream. The records of a read come one
 * after the other, so one buffer serves all bodies of a listener: it is passed on when another body needs it, or the
 * turn ends.
 */
export class TurnPieces {
  #memory: Buffer | null = null;
  #length = 0;
  #body: StreamBody | null = null;
  #isAwaitingEnd = false;

  /** Passes on the bytes of another body, or those that leave no room for `bytes` more of this one. */
  makeRoom(body: StreamBody, bytes: number): void {
    if (this.#body !== body || this.#length + bytes > memoryBytes) this.pass();
  }

  /** Call `makeRoom` first, and this only if the body still flows. */
  add(body: StreamBody, bytes: Buffer): void {
    this.#memory ??= Buffer.allocUnsafeSlow(memoryBytes);
    this.#memory.set(bytes, this.#length);
    this.#length += bytes.length;
    this.#body = body;
    if (this.#isAwaitingEnd) return;
    this.#isAwaitingEnd = true;
    setImmediate(this.#onTurnEnd);
  }

  has(body: StreamBody): boolean {
    return this.#body === body;
  }

  pass(): void {
    const [body, length] = [this.#body, this.#length];
    this.#body = null;
    this.#length = 0;
    if (length > 0) body?.passJoined((this.#memory as Buffer).subarray(0, length));
  }

  readonly #onTurnEnd = (): void => {
    this.#isAwaitingEnd = false;
    this.pass();
  };
}
