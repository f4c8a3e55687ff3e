// What carries the body of a request, each part alone: what it was given comes out, in order, with the end once and
// last. Its reader pauses at random, and all memory is overwritten after the call that was given it.
import { Socket } from "node:net";
import { Readable } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { test } from "vitest";
import { maxUnreadBytes } from "../../../src/core/http-bounds.ts";
import type { Exchange } from "../../../src/exchange/exchange.ts";
import { BodyStream } from "../../../src/fastify/proxy/body-stream.ts";
import { ChunkDecoder, LengthDecoder, requestChunks } from "../../../src/http1/body-decoder.ts";
import { IncomingBody } from "../../../src/transport/http1/incoming-body.ts";
import { StreamBody, TurnPieces } from "../../../src/transport/http2/stream-body.ts";
import { type Draw, drawContent, expectNoFault, inChunks, Receipt } from "./drawn.ts";
import { forward, type Reading, readDirectly } from "./readers.ts";

const maxPieceBytes = 16 * 1024;

/** What was sent of a body over HTTP/2, by a client that keeps to its window. */
class Upload {
  readonly content: Buffer;
  readonly body: StreamBody;
  /** Its reader does not mind if others pause it. */
  readonly isDirect: boolean;
  readonly reading: Reading;
  sentBytes = 0;
  usedBytes = 0;
  isSent = false;
  readonly #draw: Draw;
  readonly #windowBytes: number;

  constructor(draw: Draw, turn: TurnPieces, disturb: () => void) {
    this.#draw = draw;
    this.isDirect = draw.isOneIn(2);
    this.#windowBytes = draw.pick([20_000, 65_535, 200_000]);
    this.content = drawContent(draw, 300_000);
    let nowMs = 0;
    const owner = {
      cancel: () => void this.body.destroy(),
      used: (bytes: number) => {
        this.usedBytes += bytes;
      },
    };
    this.body = new StreamBody(owner, turn, () => (nowMs += 100));
    this.reading = this.isDirect
      ? readDirectly(draw, this.body, this.content, disturb)
      : forward(draw, this.body, this.content);
  }

  /** Returns whether the window allowed it. */
  send(memory: Buffer): boolean {
    const room = this.#windowBytes - (this.sentBytes - this.usedBytes);
    const left = this.content.length - this.sentBytes;
    const bytes = Math.min(left, room, this.#draw.isOneIn(2) ? maxPieceBytes : this.#draw.length(maxPieceBytes));
    if (this.isSent || (bytes === 0 && left > 0)) return false;
    const piece = memory.subarray(0, this.content.copy(memory, 0, this.sentBytes, this.sentBytes + bytes));
    this.sentBytes += bytes;
    // The end may come behind the last piece.
    this.isSent = bytes === left && !this.#draw.isOneIn(3);
    this.body.receive(piece, this.isSent);
    memory.fill(0xee);
    return true;
  }

  find(): string | null {
    const { receipt } = this.reading;
    if (receipt.fault !== null) return receipt.fault;
    if (this.usedBytes !== this.sentBytes) return `${this.usedBytes} of ${this.sentBytes} bytes were given back`;
    return this.body.destroyed || receipt.isEnded ? null : "the end did not come";
  }
}

async function upload(draw: Draw): Promise<string | null> {
  const turn = new TurnPieces();
  const memory = Buffer.alloc(maxPieceBytes);
  const uploads: Upload[] = [];
  const disturb = (): void => {
    const { body, isDirect } = draw.pick(uploads);
    if (draw.isOneIn(30)) body.destroy();
    else if (isDirect) body.pause();
  };
  const count = draw.pick([1, 1, 2, 4]);
  for (let i = 0; i < count; i += 1) uploads.push(new Upload(draw, turn, disturb));
  const isMoving = (): boolean => uploads.some(({ isSent, body }) => !isSent && !body.destroyed);
  for (let left = 10_000; left > 0 && isMoving(); left -= 1) {
    // One read of a socket is followed by others of the same body, more often than not.
    const next = draw.pick(uploads);
    for (let pieces = draw.upTo(6); pieces > 0 && next.send(memory); pieces -= 1) {
      if (draw.isOneIn(4)) next.reading.act();
    }
    const other = draw.pick(uploads);
    other.reading.act();
    const happens = draw.upTo(4);
    if (happens === 0) await nextTurn();
    else if (happens === 1) for (const { reading } of uploads) reading.goOn();
  }
  for (let left = 100; left > 0 && uploads.some((each) => each.find() !== null); left -= 1) {
    await nextTurn();
    for (const { reading } of uploads) reading.goOn();
  }
  for (const { reading } of uploads) reading.end();
  return uploads.map((each) => each.find()).find((fault) => fault !== null) ?? null;
}

test("bodies over HTTP/2 that share a buffer come out as they came in", () => expectNoFault(upload, 2_000));

/** A body over HTTP/1.1: `head` bytes of it come with the head, and the next request behind it. */
async function receive(draw: Draw): Promise<string | null> {
  const content = drawContent(draw, 400_000);
  const isChunked = draw.isOneIn(2);
  const framed = isChunked ? inChunks(draw, content) : content;
  const behind = "GET / HTTP/1.1";
  const all = Buffer.concat([framed, Buffer.from(behind)]);
  let nowMs = 0;
  const socket = new Socket();
  const decoder = isChunked ? new ChunkDecoder(requestChunks, () => (nowMs += 100)) : new LengthDecoder(content.length);
  let fault: string | null = null;
  const cancel = (): void => {
    fault ??= "the body was refused";
  };
  const body = new IncomingBody(socket, decoder, { cancel });
  const memory = Buffer.alloc(64 * 1024);
  let at = 0;
  const read = (): Buffer => {
    const bytes = draw.isOneIn(2) ? memory.length : draw.length(memory.length);
    const piece = memory.subarray(0, all.copy(memory, 0, at, at + bytes));
    at += piece.length;
    return piece;
  };
  let taken = draw.isOneIn(3) ? 0 : body.begin(read());
  const isDirect = draw.isOneIn(2);
  const reading = isDirect ? readDirectly(draw, body, content, () => body.pause()) : forward(draw, body, content);
  if (draw.isOneIn(2)) reading.goOn();
  body.keep();
  memory.fill(0xee);
  const deliver = (): void => {
    const piece = read();
    const bytes = body.receive(piece);
    taken += bytes;
    memory.fill(0xee);
    const keptBytes = body.receivedBytes - reading.receipt.bytes;
    const isTooMuch = isDirect && keptBytes >= maxUnreadBytes && !body.isComplete;
    if (isTooMuch && !socket.isPaused()) fault ??= `the socket is read on with ${keptBytes} bytes kept`;
  };
  for (let left = 10_000; left > 0 && (!reading.receipt.isEnded || at < all.length); left -= 1) {
    // TLS delivers a few records after a pause.
    if (at < all.length && (!socket.isPaused() || draw.isOneIn(20))) deliver();
    else if (draw.isOneIn(4)) reading.goOn();
    reading.act();
    if (draw.isOneIn(4)) await nextTurn();
  }
  reading.end();
  if (taken !== framed.length) fault ??= `${taken} of ${framed.length} bytes were taken`;
  if (!reading.receipt.isEnded)
    fault ??= `the end did not come, but ${reading.receipt.bytes} of ${content.length} bytes`;
  return reading.receipt.fault ?? fault;
}

test("a body over HTTP/1.1, by its length or in chunks, comes out as it came in", () => expectNoFault(receive, 1_000));

/** The body that undici reads, of a request to an app. */
async function stream(draw: Draw): Promise<string | null> {
  const content = drawContent(draw, 400_000);
  let at = 0;
  const source = new Readable({
    highWaterMark: draw.pick([1, 16_384, 65_536]),
    read() {
      const give = (): void => {
        const piece = Buffer.from(content.subarray(at, at + draw.length(64 * 1024)));
        at += piece.length;
        source.push(piece.length === 0 ? null : piece);
      };
      if (draw.isOneIn(2)) give();
      else setImmediate(give);
    },
  });
  const receipt = new Receipt(content);
  const cancel = (): void => {
    receipt.fault ??= "the body was refused";
  };
  let nowMs = 0;
  const options = {
    maxBodyBytes: content.length,
    bodyTimeoutMs: 2 ** 30,
    bodyBytesPerSecond: 4096,
    nowMs: () => (nowMs += 100),
  };
  const body = new BodyStream({ body: source } as unknown as Exchange, options, { cancel });
  body.on("data", (bytes: Buffer) => {
    receipt.take(bytes);
    if (!draw.isOneIn(3)) return;
    body.pause();
    setImmediate(() => body.resume());
  });
  body.on("end", () => receipt.end());
  for (let left = 10_000; left > 0 && !receipt.isEnded; left -= 1) await nextTurn();
  body.destroy();
  return receipt.fault ?? (receipt.isEnded ? null : `the end did not come, but ${receipt.bytes} bytes`);
}

test("the body of a request to an app comes out as it came in", () => expectNoFault(stream, 400));
