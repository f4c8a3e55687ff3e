// A connection of HTTP/2 without its socket: what a client uploads and what it is sent on several streams come out as they
// came in, while it cuts, pads and interleaves frames, opens its windows by random amounts, changes them, and resets streams;
// and while the system takes little of what is written. All memory is overwritten as soon as it may be.
import type { Socket } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { test } from "vitest";
import { type DrivenConnection, Http2Driver } from "../../../src/exchange/http2-driver.ts";
import { PeerTurns } from "../../../src/exchange/peer-turns.ts";
import type { OnBytes, SharedReads } from "../../../src/exchange/sockets.ts";
import { FrameBudgets } from "../../../src/http2/frame-reader.ts";
import type { Http2Stream } from "../../../src/http2/responses.ts";
import { Http2Session } from "../../../src/http2/session.ts";
import { type Http2Owner, Http2Transport } from "../../../src/transport/http2/http2-transport.ts";
import { StreamBody, TurnPieces } from "../../../src/transport/http2/stream-body.ts";
import { preface, requestFields, settings } from "../../http2/conversation.ts";
import {
  code,
  endHeaders,
  endStream,
  type Frame,
  FrameReader,
  frame,
  frameTypes,
  literals,
} from "../../support/http2-frames.ts";
import { type Draw, drawContent, expectNoFault, Receipt } from "./drawn.ts";
import { forward, type Reading, readDirectly } from "./readers.ts";

const padded = 8;
const initialWindowSize = 4;
const firstWindow = 65_535;
/** 64 KiB of bodies, one frame more, and what is no body. */
const maxWaitingBytes = 96 * 1024;

/** Takes what is written piece by piece. Until then a piece is not copied. */
class SlowSocket implements SharedReads {
  readonly destroyed = false;
  readonly writableEnded = false;
  isPaused = false;
  onBytes: OnBytes = () => {};
  readonly #unwritten: { readonly piece: Buffer | string; readonly onTaken: (() => void) | undefined }[] = [];

  take(_: Socket, onBytes: OnBytes): boolean {
    this.onBytes = onBytes;
    return true;
  }

  release(): void {}

  on(): this {
    return this;
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }

  cork(): void {}

  uncork(): void {}

  write(piece: Buffer | string, _: string, onTaken?: () => void): void {
    this.#unwritten.push({ piece, onTaken });
  }

  /** The system takes some pieces. */
  drain(pieces: number): Buffer {
    const taken = this.#unwritten.splice(0, pieces);
    const bytes = Buffer.concat(taken.map(({ piece }) => Buffer.from(piece as string, "latin1")));
    for (const { onTaken } of taken) onTaken?.();
    return bytes;
  }
}

/** One stream: what goes up and what comes down, as both sides know. */
interface Contents {
  readonly up: Buffer;
  readonly down: Buffer;
}

/** The gateway's side of a stream. */
class Answer {
  readonly transport: Http2Transport;
  readonly reading: Reading | null;
  isBlocked = false;
  isClosed = false;
  fault: string | null = null;
  readonly #stream: Http2Stream<Http2Transport>;
  readonly #draw: Draw;
  readonly #content: Buffer;
  #sentBytes = 0;
  /** Not to be overwritten yet. */
  #written: Buffer[] = [];

  constructor(draw: Draw, stream: Http2Stream<Http2Transport>, transport: Http2Transport, { up, down }: Contents) {
    this.#draw = draw;
    this.#stream = stream;
    this.transport = transport;
    this.#content = down;
    const { body } = transport;
    if (!(body instanceof StreamBody)) this.reading = null;
    else this.reading = draw.isOneIn(2) ? readDirectly(draw, body, up, () => {}) : forward(draw, body, up);
    transport.sendHead(200, "OK", "");
  }

  write(): void {
    if (this.isBlocked || this.isClosed || this.transport.isEnded) return;
    const piece = this.#content.subarray(this.#sentBytes, this.#sentBytes + this.#draw.length(100_000));
    const isLast = this.#sentBytes + piece.length === this.#content.length;
    // An answer that ends before its request does would break the request off.
    if (isLast && this.reading?.receipt.isEnded === false) return;
    this.#sentBytes += piece.length;
    if (isLast) this.transport.end(piece.toString("latin1"));
    else if (this.#draw.isOneIn(3)) this.#write(piece.toString("latin1"));
    else {
      const own = Buffer.from(piece);
      this.#written.push(own);
      this.#write(own);
    }
  }

  #write(piece: Buffer | string): void {
    this.isBlocked = !this.transport.write(piece);
    if (!this.isBlocked && this.#stream.queuedBytes > 0)
      this.fault = "more may be written, but the client takes no more";
  }

  get id(): number {
    return this.#stream.id;
  }

  /** Written, and not sent. */
  get queuedBytes(): number {
    return this.isClosed ? 0 : this.#stream.queuedBytes;
  }

  overwrite(): void {
    if (!this.transport.isFlushed) return;
    for (const piece of this.#written) piece.fill(0xee);
    this.#written = [];
  }
}

/** The gateway's side: passes on bodies of requests, and sends those of responses. */
class Server implements DrivenConnection<Http2Transport>, Http2Owner {
  readonly session: Http2Session<Http2Transport>;
  readonly turnPieces = new TurnPieces();
  readonly answers = new Map<Http2Transport, Answer>();
  fault: string | null = null;
  readonly #draw: Draw;
  readonly #contents: ReadonlyMap<number, Contents>;
  readonly #driver: Http2Driver<Http2Transport>;
  #nowMs = 0;

  constructor(draw: Draw, socket: SlowSocket, contents: ReadonlyMap<number, Contents>) {
    this.#draw = draw;
    this.#contents = contents;
    const budget = new FrameBudgets(this.#clock).open(null);
    const tcp = socket as unknown as Socket;
    const turn = new PeerTurns().add(tcp, "a");
    this.session = new Http2Session({ budget, turn, nowMs: this.#clock, maxStreams: 100, maxHeaderBytes: 16_384 });
    const maxUnsentBytes = draw.pick([1_000, 256 * 1024]);
    this.#driver = new Http2Driver(tcp, this.session, this, turn, maxUnsentBytes, socket, null);
    this.settleLater();
  }

  get isFlushed(): boolean {
    return this.#driver.isFlushed;
  }

  settleLater(): void {
    this.#driver.settleLater();
  }

  onEvent(event: Parameters<DrivenConnection<Http2Transport>["onEvent"]>[0]): void {
    if (event.kind === "over") this.fault ??= `the connection failed: ${event.code}`;
    else if (event.kind === "malformed") this.fault ??= "a request is malformed";
    else if (event.kind === "data") {
      if (event.stream.owner === null) this.fault ??= "a body has no owner";
      else event.stream.owner.receive(event.bytes, event.isEnd);
    } else {
      const { stream } = event;
      const transport = new Http2Transport(this, stream, this.#clock);
      stream.owner = transport;
      this.answers.set(transport, new Answer(this.#draw, stream, transport, this.#contents.get(stream.id) as Contents));
    }
  }

  onStreamClosed(transport: Http2Transport): void {
    transport.closed();
    const answer = this.answers.get(transport);
    if (answer === undefined) return;
    answer.isClosed = true;
    answer.reading?.end();
  }

  onStreamDrained(transport: Http2Transport): void {
    const answer = this.answers.get(transport);
    if (answer !== undefined) answer.isBlocked = false;
  }

  onSettling(): void {}

  onSettled(): void {}

  readonly #clock = (): number => (this.#nowMs += 100);
}

interface ClientStream {
  readonly id: number;
  readonly up: Buffer;
  readonly receipt: Receipt;
  sentBytes: number;
  isSent: boolean;
  sendWindow: number;
  receiveWindow: number;
  isReset: boolean;
}

class Client {
  readonly streams: ClientStream[] = [];
  fault: string | null = null;
  sendWindow = firstWindow;
  /** On their way to the gateway. */
  #bytes: Buffer[] = [preface];
  readonly #draw: Draw;
  /** Padding counts for the windows as bytes do. With so much of it, what is not given back of them is missed soon. */
  readonly #isMostlyPadding: boolean;
  readonly #reader = new FrameReader();
  receiveWindow = firstWindow;
  #initialWindow = firstWindow;
  /** Windows shrink when the gateway says that it knows: those of streams that were opened before. */
  readonly #shrinking: { readonly change: number; readonly streams: readonly ClientStream[] }[] = [];

  constructor(draw: Draw) {
    this.#draw = draw;
    this.#isMostlyPadding = draw.isOneIn(6);
    this.changeWindows();
    if (draw.isOneIn(2)) this.#openConnection(1_000_000);
  }

  takeBytes(max: number): Buffer {
    const all = Buffer.concat(this.#bytes);
    this.#bytes = all.length > max ? [all.subarray(max)] : [];
    return all.subarray(0, max);
  }

  get hasBytes(): boolean {
    return this.#bytes.length > 0;
  }

  open(id: number, { up, down }: Contents): void {
    const flags = endHeaders | (up.length === 0 ? endStream : 0);
    const length: [string, string][] = this.#draw.isOneIn(2) ? [["content-length", `${up.length}`]] : [];
    const fields = literals([...requestFields(), ...length]);
    this.#bytes.push(frame(frameTypes.headers, flags, id, fields));
    const windows = { sendWindow: firstWindow, receiveWindow: this.#initialWindow };
    const receipt = new Receipt(down);
    this.streams.push({ id, up, receipt, sentBytes: 0, isSent: up.length === 0, ...windows, isReset: false });
  }

  /** A DATA frame, padded or not, as long as the windows allow. */
  send(stream: ClientStream): void {
    const room = Math.min(stream.sendWindow, this.sendWindow, 16_384);
    if (stream.isSent || stream.isReset || room <= 0) return;
    const left = stream.up.length - stream.sentBytes;
    const isPadded = room > 300 && (this.#isMostlyPadding || this.#draw.isOneIn(6));
    const padding = !isPadded ? -1 : this.#isMostlyPadding ? 255 : this.#draw.upTo(255);
    const most = this.#isMostlyPadding ? 500 : 16_384;
    const wanted = this.#draw.isOneIn(2) ? most : this.#draw.length(most);
    const bytes = Math.min(left, wanted, room - padding - 1);
    const piece = stream.up.subarray(stream.sentBytes, stream.sentBytes + bytes);
    const payload = padding < 0 ? piece : Buffer.concat([Buffer.of(padding), piece, Buffer.alloc(padding)]);
    stream.sentBytes += bytes;
    stream.isSent = bytes === left && !this.#draw.isOneIn(4);
    const flags = (stream.isSent ? endStream : 0) | (padding < 0 ? 0 : padded);
    this.#bytes.push(frame(frameTypes.data, flags, stream.id, payload));
    stream.sendWindow -= payload.length;
    this.sendWindow -= payload.length;
  }

  reset(stream: ClientStream): void {
    if (stream.isReset || stream.receipt.isEnded) return;
    stream.isReset = true;
    this.#bytes.push(frame(frameTypes.rstStream, 0, stream.id, code(8)));
  }

  openWindows(stream: ClientStream, bytes: number): void {
    if (this.#draw.isOneIn(2) && !stream.isReset && !stream.receipt.isEnded) {
      stream.receiveWindow += bytes;
      this.#bytes.push(frame(frameTypes.windowUpdate, 0, stream.id, code(bytes)));
    }
    if (this.#draw.isOneIn(2)) this.#openConnection(bytes);
  }

  #openConnection(bytes: number): void {
    this.receiveWindow += bytes;
    this.#bytes.push(frame(frameTypes.windowUpdate, 0, 0, code(bytes)));
  }

  changeWindows(): void {
    const change = this.#draw.pick([0, 1, 1_000, 65_535, 300_000, 1_000_000]) - this.#initialWindow;
    this.#initialWindow += change;
    this.#shrinking.push({ change: Math.min(0, change), streams: [...this.streams] });
    if (change > 0) for (const stream of this.streams) stream.receiveWindow += change;
    this.#bytes.push(settings([initialWindowSize, this.#initialWindow]));
  }

  read(bytes: Buffer): void {
    for (const one of this.#reader.read(bytes)) this.#take(one);
  }

  #take({ type, flags, stream: id, payload }: Frame): void {
    const stream = this.streams.find((each) => each.id === id);
    if (type === frameTypes.windowUpdate) {
      if (stream === undefined) this.sendWindow += payload.readUInt32BE();
      else stream.sendWindow += payload.readUInt32BE();
    } else if (type === frameTypes.settings && flags === 1) {
      const known = this.#shrinking.shift();
      for (const each of known?.streams ?? []) each.receiveWindow += known?.change ?? 0;
    } else if (type === frameTypes.goaway || (type === frameTypes.rstStream && stream?.isReset !== true)) {
      this.fault ??= `stream ${id} was broken off: ${payload.toString("hex")}`;
    } else if (type === frameTypes.data && stream !== undefined) {
      this.receiveWindow -= payload.length;
      stream.receiveWindow -= payload.length;
      const isTooMuch = this.receiveWindow < 0 || stream.receiveWindow < 0;
      if (payload.length > 0 && isTooMuch) this.fault ??= `stream ${id} got more than its windows allow`;
      stream.receipt.take(payload);
    }
    if (type <= frameTypes.headers && (flags & endStream) !== 0) stream?.receipt.end();
  }
}

/** Call it when nothing moves any more: what is not sent waits for a window. */
function findStuck(client: Client, server: Server): string | null {
  for (const { id, queuedBytes } of server.answers.values()) {
    const window = Math.min(client.receiveWindow, client.streams.find((each) => each.id === id)?.receiveWindow ?? 0);
    if (queuedBytes > 0 && window > 0) return `stream ${id} does not use a window of ${window} bytes`;
  }
  return null;
}

/** Returns what is wrong, or not yet right. */
function findFault(client: Client, server: Server): string | null {
  const fault = client.fault ?? server.fault;
  if (fault !== null) return fault;
  for (const answer of server.answers.values()) {
    const answerFault = answer.fault ?? answer.reading?.receipt.fault ?? null;
    if (answerFault !== null) return answerFault;
  }
  for (const { id, receipt, isReset } of client.streams) {
    if (receipt.fault !== null) return receipt.fault;
    if (!isReset && !receipt.isEnded) return `stream ${id} has not ended, but got ${receipt.bytes} bytes`;
  }
  // What was used and is not given back yet is a third of the window of 192 KiB at most.
  const open = client.sendWindow;
  return open > 128 * 1024 - 1024 ? null : `the window of the connection has only ${open} bytes left`;
}

async function talk(draw: Draw): Promise<string | null> {
  const contents = new Map<number, Contents>();
  for (let id = 1; id <= 2 * draw.pick([1, 3, 8]); id += 2) {
    const [up, down] = [draw.pick([0, 1_000, 300_000]), draw.pick([0, 1_000, 300_000])];
    contents.set(id, { up: drawContent(draw, up), down: drawContent(draw, down) });
  }
  const socket = new SlowSocket();
  const server = new Server(draw, socket, contents);
  const client = new Client(draw);
  const unopened = [...contents];
  const drainedOneIn = draw.pick([2, 10]);
  const memory = Buffer.alloc(64 * 1024);
  const deliver = (): void => {
    const bytes = client.takeBytes(draw.isOneIn(2) ? memory.length : draw.length(memory.length));
    socket.onBytes(memory.subarray(0, bytes.copy(memory)));
    memory.fill(0xee);
  };
  const step = (isEnd: boolean): void => {
    const next = unopened.length > 0 && draw.isOneIn(10) ? unopened.shift() : undefined;
    if (next !== undefined) client.open(...next);
    const stream = client.streams.length === 0 ? null : draw.pick(client.streams);
    if (stream !== null) {
      for (let frames = draw.upTo(8); frames > 0; frames -= 1) client.send(stream);
      if (isEnd || draw.isOneIn(4)) client.openWindows(stream, isEnd ? 100_000 : draw.length(40_000));
      if (!isEnd && draw.isOneIn(300)) client.reset(stream);
    }
    if (!isEnd && draw.isOneIn(60)) client.changeWindows();
    if (client.hasBytes && (!socket.isPaused || draw.isOneIn(20)) && draw.isOneIn(2)) deliver();
    if (isEnd || draw.isOneIn(drainedOneIn)) client.read(socket.drain(draw.upTo(8)));
    for (const answer of server.answers.values()) {
      answer.reading?.act();
      if (isEnd || draw.isOneIn(8)) answer.reading?.goOn();
      answer.overwrite();
      if (draw.isOneIn(3)) answer.write();
    }
    const { waitingBytes } = server.session;
    if (waitingBytes > maxWaitingBytes) server.fault ??= `${waitingBytes} bytes wait to be written`;
  };
  /** Everything that is under way arrives, and nobody writes anything new. */
  const settle = async (): Promise<string | null> => {
    for (let quietTurns = 0; quietTurns < 3; quietTurns += 1) {
      if (client.hasBytes && !socket.isPaused) deliver();
      const bytes = socket.drain(1_000);
      if (bytes.length > 0 || (client.hasBytes && !socket.isPaused)) quietTurns = 0;
      client.read(bytes);
      await nextTurn();
    }
    return client.hasBytes ? null : findStuck(client, server);
  };
  for (let steps = 0; steps < 20_000; steps += 1) {
    if (draw.isOneIn(50)) server.fault ??= await settle();
    step(steps > 400);
    if (draw.isOneIn(3)) await nextTurn();
    const isOver = unopened.length === 0 && client.streams.every(({ isSent, isReset }) => isSent || isReset);
    if (isOver && findFault(client, server) === null) break;
    if ((client.fault ?? server.fault) !== null) break;
  }
  for (const { reading } of server.answers.values()) reading?.end();
  return findFault(client, server);
}

test("bodies in both directions come out as they came in, and the windows are given back", () =>
  expectNoFault(talk, 2_000));
