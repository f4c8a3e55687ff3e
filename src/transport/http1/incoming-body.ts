// The body of a request that arrives after its head, or in chunks. While it has a reader, its bytes are passed on without a
// copy. Without one, they are joined into one buffer, because each small buffer would take a hundred times its size; with
// many of them, the socket is not read.
import type { Socket } from "node:net";
import { brokenRule } from "../../core/broken-rule.ts";
import { maxUnreadBytes } from "../../core/http-bounds.ts";
import { JoinedPieces } from "../../core/joined-pieces.ts";
import { type LocalReply, localReplies, malformedBy } from "../../core/local-reply.ts";
import type { BodyReader, PushedBody } from "../../exchange/transport.ts";
import type { BodyDecoder, BodyProblem, DecodedPiece } from "../../http1/body-decoder.ts";

interface BodyOwner {
  /** The body cannot be read to its end. */
  cancel(reply: LocalReply): void;
}

export class IncomingBody implements PushedBody {
  readonly #socket: Socket;
  readonly #owner: BodyOwner;
  readonly #decoder: BodyDecoder;
  reader: BodyReader | null = null;
  destroyed = false;
  /** Without the framing of chunks. */
  receivedBytes = 0;
  #isFlowing = false;
  /** What came with the head, until it is passed on or kept. */
  #first: Buffer = nothing;
  /** Received behind it. */
  readonly #waiting = new JoinedPieces();
  /** Of all that waits. */
  #progressBytes = 0;
  #isPaused = false;
  #isBroken = false;

  constructor(socket: Socket, decoder: BodyDecoder, owner: BodyOwner) {
    this.#socket = socket;
    this.#decoder = decoder;
    this.#owner = owner;
  }

  /** All of it has been received. */
  get isComplete(): boolean {
    return this.#decoder.isComplete && !this.#isBroken;
  }

  /**
   * Takes what belongs to the body of the bytes behind the head. Returns how many bytes that are. Call `keep` before they
   * are overwritten.
   */
  begin(bytes: Buffer): number {
    const { taken, data, progressBytes } = this.#take(bytes);
    this.#first = data;
    this.#progressBytes = progressBytes;
    return taken;
  }

  /** Copies what came with the head and has not been passed on. */
  keep(): void {
    const first = this.#first;
    this.#first = nothing;
    if (first.length > 0) this.#wait(first);
  }

  /** Takes what belongs to the body. Returns how many bytes that are. */
  receive(bytes: Buffer): number {
    if (this.isComplete) return 0;
    const { taken, data, progressBytes } = this.#take(bytes);
    if (this.#isFlowing && this.#waiting.length === 0) this.#pass(data, progressBytes);
    else {
      this.#progressBytes += progressBytes;
      if (data.length > 0) this.#wait(data);
    }
    return taken;
  }

  pause(): void {
    this.#isFlowing = false;
  }

  resume(): void {
    this.#isFlowing = true;
    const first = this.#first;
    this.#first = nothing;
    if (first.length > 0 || (this.isComplete && this.#waiting.length === 0)) this.#passWaiting(first);
    if (this.#isFlowing && this.#waiting.length > 0) this.#passWaiting(this.#waiting.take());
    if (!this.#isFlowing || !this.#isPaused) return;
    this.#isPaused = false;
    this.#socket.resume();
  }

  /** Frees what waits, and takes what still comes without passing it on. */
  destroy(): void {
    this.destroyed = true;
    this.reader = null;
    this.#first = nothing;
    this.#waiting.take();
  }

  #take(bytes: Buffer): Omit<DecodedPiece, "problem"> {
    if (!this.#isBroken) {
      const decoded = this.#decoder.decode(bytes);
      if (decoded.problem === null) {
        this.receivedBytes += decoded.data.length;
        return decoded;
      }
      this.#isBroken = true;
      this.#owner.cancel(problemReply(decoded.problem));
    }
    // Nothing behind it is believed.
    return { taken: bytes.length, data: nothing, progressBytes: 0 };
  }

  #wait(bytes: Buffer): void {
    if (this.destroyed) return;
    this.#waiting.add(bytes);
    if (this.isComplete || this.#isPaused || this.#waiting.length < maxUnreadBytes) return;
    this.#isPaused = true;
    this.#socket.pause();
  }

  #passWaiting(bytes: Buffer): void {
    const progressBytes = this.#progressBytes;
    this.#progressBytes = 0;
    this.#pass(bytes, progressBytes);
  }

  #pass(bytes: Buffer, progressBytes: number): void {
    const isLast = this.isComplete && this.#waiting.length === 0;
    if (bytes.length > 0) this.reader?.onData(bytes, progressBytes, isLast);
    else if (isLast) this.reader?.onEnd();
  }
}

const nothing = Buffer.alloc(0);

export function problemReply(problem: BodyProblem): LocalReply {
  if (problem === "trailers_too_large") return localReplies.trailersTooLarge;
  return problem === "small_pieces" ? localReplies.smallPieces : malformedBy(brokenRule(problem));
}
