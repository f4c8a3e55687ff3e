// A session without a socket, as a client sees it: bytes in, and what became of them as lines that can be compared.
import { FrameBudgets } from "../../src/http2/frame-reader.ts";
import { errorCodes } from "../../src/http2/protocol.ts";
import type { Http2Stream } from "../../src/http2/responses.ts";
import { type Http2Event, Http2Session } from "../../src/http2/session.ts";
import { FakeClock } from "../support/clock.ts";
import {
  endHeaders,
  endStream,
  type Frame,
  FrameReader,
  frame,
  frameTypes,
  literals,
} from "../support/http2-frames.ts";

export const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
export const settings = (...pairs: readonly (readonly [id: number, value: number])[]): Buffer =>
  frame(
    frameTypes.settings,
    0,
    0,
    Buffer.concat(
      pairs.map(([id, value]) => {
        const pair = Buffer.alloc(6);
        pair.writeUInt16BE(id);
        pair.writeUInt32BE(value, 2);
        return pair;
      }),
    ),
  );
export const begin = Buffer.concat([preface, settings()]);

type Fields = Parameters<typeof literals>[0];

export const requestFields = (path = "/", method = "POST"): Fields => [
  [":method", method],
  [":scheme", "http"],
  [":path", path],
  [":authority", "a"],
];
/** A request whose body follows. To the path "/answer" it is answered at once. */
export const open = (stream: number, path = "/", more: Fields = []): Buffer =>
  frame(frameTypes.headers, endHeaders, stream, literals([...requestFields(path), ...more]));
/** A request without a body. */
export const whole = (stream: number, path = "/"): Buffer =>
  frame(frameTypes.headers, endHeaders | endStream, stream, literals(requestFields(path, "GET")));
export const data = (stream: number, bytes: number | string, flags = 0): Buffer =>
  frame(frameTypes.data, flags, stream, typeof bytes === "string" ? bytes : Buffer.alloc(bytes, "d"));

const codeNames = Object.fromEntries(Object.entries(errorCodes).map(([name, code]) => [code, name]));
const typeNames = Object.fromEntries(Object.entries(frameTypes).map(([name, type]) => [type, name]));

/** That a peer has. */
export const stepsInTurn = 1_024;

export class Conversation {
  readonly clock = new FakeClock();
  readonly turn = { stepsLeft: 0 };
  readonly session: Http2Session<null>;
  /** `request 1`, `data 1 abc`, `end 1`, `over protocol`. Pieces of one body are joined. */
  readonly events: string[] = [];
  /** What the session sent, without its first SETTINGS. */
  readonly frames: Frame[] = [];
  /** Of the requests. */
  readonly streams = new Map<number, Http2Stream<null>>();
  readonly fields: (readonly string[])[] = [];
  /** All that the session sent. */
  readonly bytesOut: Buffer[] = [];
  /** Received bodies are given back to the windows. */
  usesData = true;
  readonly #reader = new FrameReader();

  constructor(maxStreams = 100, { maxHeaderBytes = 16_384, lingerMs = 0 } = {}) {
    const budget = new FrameBudgets(this.clock.monotonicMs).open(null);
    const bounds = { maxStreams, maxHeaderBytes, lingerMs };
    this.session = new Http2Session({ budget, turn: this.turn, nowMs: this.clock.monotonicMs, ...bounds });
    this.collect();
    this.frames.length = 0;
  }

  /** In pieces of so many bytes. */
  send(bytes: Buffer, pieceBytes = Math.max(1, bytes.length)): this {
    for (let at = 0; at < bytes.length; at += pieceBytes) this.sendPiece(bytes.subarray(at, at + pieceBytes));
    return this;
  }

  sendPiece(piece: Buffer): void {
    // The session must not look at what was given to it before: the next read overwrites it.
    let unread = Buffer.from(piece);
    while (unread.length > 0 && !this.session.isOver) {
      const bytes = unread;
      this.turn.stepsLeft = stepsInTurn;
      this.session.feed(bytes);
      for (let event = this.session.next(); event !== null; event = this.session.next()) this.#take(event);
      unread = Buffer.from(this.session.takeUnread());
      bytes.fill(0xee);
    }
    this.collect();
  }

  /** Takes what the session has to send. */
  collect(): void {
    const bytes = Buffer.concat(
      this.session.takeOutput().map((piece) => (typeof piece === "string" ? Buffer.from(piece, "latin1") : piece)),
    );
    this.bytesOut.push(bytes);
    this.frames.push(...this.#reader.read(bytes));
  }

  /** `connection protocol`, `stream 1 refusedStream`, or `none`: the first error that the client is told. */
  get outcome(): string {
    for (const { type, stream, payload } of this.frames) {
      if (type === frameTypes.goaway && payload.readUInt32BE(4) !== 0) {
        return `connection ${codeNames[payload.readUInt32BE(4)]}`;
      }
      if (type === frameTypes.rstStream && payload.readUInt32BE(0) !== 0) {
        return `stream ${stream} ${codeNames[payload.readUInt32BE(0)]}`;
      }
    }
    return "none";
  }

  /** `headers 1`, `data 1 5`: what was sent, by type and stream, DATA and WINDOW_UPDATE with a number. */
  get sent(): string[] {
    return this.frames.map(({ type, stream, payload, flags }) => {
      const end = type <= frameTypes.headers && (flags & endStream) !== 0 ? " end" : "";
      const size = type === frameTypes.data ? ` ${payload.length}` : "";
      const count = type === frameTypes.windowUpdate ? ` ${payload.readUInt32BE(0)}` : "";
      return `${typeNames[type]} ${stream}${size}${count}${end}`;
    });
  }

  stream(id: number): Http2Stream<null> {
    return this.streams.get(id) as Http2Stream<null>;
  }

  #take(event: Http2Event<null>): void {
    if (event.kind === "over") {
      this.events.push(`over ${codeNames[event.code]}`);
      return;
    }
    if (event.kind === "malformed") return;
    const { stream, isEnd } = event;
    if (event.kind === "request") {
      this.streams.set(stream.id, stream);
      this.fields.push(event.fields);
      this.events.push(`request ${stream.id}${event.isTooLarge ? " too large" : ""}`);
      if (event.fields.includes("/answer")) this.session.respond(stream, "\x89", true);
    } else {
      const text = event.bytes.toString("latin1");
      const last = this.events.at(-1);
      if (text !== "" && last?.startsWith(`data ${stream.id} `)) this.events[this.events.length - 1] += text;
      else if (text !== "") this.events.push(`data ${stream.id} ${text}`);
      if (this.usesData) this.session.used(stream, event.bytes.length);
    }
    if (isEnd) this.events.push(`end ${stream.id}`);
  }
}
