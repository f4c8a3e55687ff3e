// The body of a request over HTTP/2. While it is read, its bytes are passed on where they were received; what nobody reads
// yet is kept in one piece. The window of its stream opens as the bytes are passed on, so a client cannot send more than it
// holds.
import type { LocalReply } from "../../core/local-reply.ts";
import { localReplies } from "../../core/local-reply.ts";
import { PieceBudget, progressOf } from "../../core/piece-budget.ts";
import { JoinedPieces } from "../../exchange/joined-pieces.ts";
import type { BodyReader, PushedBody } from "../../exchange/pushed-body.ts";

export interface StreamBodyOwner {
  /** The body cannot be read to its end. */
  cancel(reply: LocalReply): void;
  /** So many bytes are not kept any more. */
  used(bytes: number): void;
}

export class StreamBody implements PushedBody {
  readonly #owner: StreamBodyOwner;
  readonly #pieces: PieceBudget;
  reader: BodyReader | null = null;
  destroyed = false;
  receivedBytes = 0;
  #isComplete = false;
  #isFlowing = false;
  readonly #waiting = new JoinedPieces();
  /** Of all that waits. */
  #progressBytes = 0;

  constructor(owner: StreamBodyOwner, nowMs: () => number) {
    this.#owner = owner;
    this.#pieces = new PieceBudget(nowMs);
  }

  /** The bytes are overwritten afterwards. */
  receive(bytes: Buffer, isEnd: boolean): void {
    this.receivedBytes += bytes.length;
    if (!this.destroyed && bytes.length > 0 && !this.#pieces.take(bytes.length)) {
      this.#owner.cancel(localReplies.smallPieces);
    }
    if (isEnd) this.#isComplete = true;
    if (this.destroyed) {
      this.#owner.used(bytes.length);
      return;
    }
    const progressBytes = progressOf(bytes.length);
    if (this.#isFlowing && this.#waiting.length === 0) {
      this.#pass(bytes, progressBytes);
      this.#owner.used(bytes.length);
    } else {
      this.#progressBytes += progressBytes;
      if (bytes.length > 0) this.#waiting.add(bytes);
    }
  }

  pause(): void {
    this.#isFlowing = false;
  }

  resume(): void {
    this.#isFlowing = true;
    if (this.#waiting.length === 0 && !this.#isComplete) return;
    const waiting = this.#waiting.take();
    const progressBytes = this.#progressBytes;
    this.#progressBytes = 0;
    this.#pass(waiting, progressBytes);
    this.#owner.used(waiting.length);
  }

  /** Frees what waits, and takes what still comes without passing it on. */
  destroy(): void {
    this.destroyed = true;
    this.reader = null;
    this.#owner.used(this.#waiting.take().length);
  }

  #pass(bytes: Buffer, progressBytes: number): void {
    const isLast = this.#isComplete && this.#waiting.length === 0;
    if (bytes.length > 0) this.reader?.onData(bytes, progressBytes, isLast);
    else if (isLast) this.reader?.onEnd();
  }
}
