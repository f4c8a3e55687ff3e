// Counts the bytes of a body that Node reads, for requests that Node itself makes.
import { Readable } from "node:stream";

const received = Symbol("received bytes");

type CountedBody = Readable & { [received]?: number };

/** To be called before the body is read. */
export function countBody(body: CountedBody): void {
  body[received] = body.readableLength;
  body.push = countingPush;
}

/** Returns the bytes that have been received, without their framing. */
export function countedBytes(body: CountedBody): number {
  return body[received] ?? 0;
}

function countingPush(this: CountedBody, piece: Buffer | null, encoding?: BufferEncoding): boolean {
  if (piece !== null) this[received] = countedBytes(this) + piece.length;
  return Readable.prototype.push.call(this, piece, encoding);
}
