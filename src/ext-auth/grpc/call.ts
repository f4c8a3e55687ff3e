// One gRPC call on one HTTP/2 stream. It ends once, with a status. A caller that has left gets no answer, and once the answer
// is complete the rest of the request is not read.
import type { Socket } from "node:net";
import type { ClientBytes } from "../../core/client-share.ts";
import type { HeaderList } from "../../core/headers.ts";
import { encodeFields } from "../../http2/hpack.ts";
import type { Http2Stream } from "../../http2/responses.ts";

/** From https://grpc.github.io/grpc/core/md_doc_statuscodes.html. */
export const grpcCodes = {
  ok: 0,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  permissionDenied: 7,
  resourceExhausted: 8,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  unauthenticated: 16,
} as const;

const headFields = [
  ...[":status", "200"],
  ...["content-type", "application/grpc"],
  ...["grpc-accept-encoding", "identity"],
];
const ok: GrpcStatus = { code: grpcCodes.ok, message: "" };
const head = encodeFields(headFields);
const okTrailers = encodeFields(statusFields(ok));

export interface GrpcMethod {
  readonly maxMessageBytes: number;
  /** Returns why the caller is refused, or null. It runs before the message is read. */
  admits(call: GrpcCall): GrpcStatus | null;
  /** Answers the call, at once or later. The message may be overwritten when this returns. */
  handle(message: Buffer, call: GrpcCall): void;
}

/** The connection of a call. What a call sends leaves at the end of the turn. */
export interface CallWriter {
  readonly socket: Socket;
  /** The IP address of the caller. */
  readonly address: string;
  respond(stream: Http2Stream<GrpcCall>, block: string, isEnd: boolean): void;
  write(stream: Http2Stream<GrpcCall>, piece: string): void;
  finish(stream: Http2Stream<GrpcCall>, trailers: string): void;
}

export class GrpcCall {
  /** Pseudo-header fields included. */
  readonly rawHeaders: HeaderList;
  /** Null: there is none, or it does not admit the caller, so nothing of the request is read. */
  method: GrpcMethod | null = null;
  /** Of a message that comes in several pieces. */
  reader: MessageReader | null = null;
  timer: NodeJS.Timeout | null = null;
  /** For the whole call, as the caller says. */
  timeoutMs = 0;
  /** All of the message has come. */
  isWhole = false;
  readonly #writer: CallWriter;
  readonly #stream: Http2Stream<GrpcCall>;
  readonly #onFail: (call: GrpcCall, status: GrpcStatus) => void;
  #hasStatus = false;
  #onClose: (() => void) | null = null;

  constructor(
    writer: CallWriter,
    stream: Http2Stream<GrpcCall>,
    rawHeaders: HeaderList,
    onFail: (call: GrpcCall, status: GrpcStatus) => void,
  ) {
    this.#writer = writer;
    this.#stream = stream;
    this.rawHeaders = rawHeaders;
    this.#onFail = onFail;
  }

  get socket(): Socket {
    return this.#writer.socket;
  }

  get address(): string {
    return this.#writer.address;
  }

  /** The call has its status, or the caller has left. */
  get isOver(): boolean {
    return this.#hasStatus || this.#stream.isClosed;
  }

  onClose(listener: () => void): void {
    if (this.#stream.isClosed) listener();
    else this.#onClose = listener;
  }

  /** The stream of the call is closed. */
  closed(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.reader?.release();
    this.#onClose?.();
    this.#onClose = null;
  }

  /** Sends one of several messages. */
  send(message: string): void {
    if (this.isOver) return;
    this.#begin();
    this.#writer.write(this.#stream, framed(message));
  }

  /** Sends the only message, and ends the call. */
  reply(message: string): void {
    if (this.isOver) return;
    this.send(message);
    this.#end(okTrailers);
  }

  fail(status: GrpcStatus): void {
    if (this.isOver) return;
    this.#onFail(this, status);
    const fields = statusFields(status);
    if (this.#stream.isHeadSent) {
      this.#end(encodeFields(fields));
      return;
    }
    this.#hasStatus = true;
    this.#writer.respond(this.#stream, encodeFields([...headFields, ...fields]), true);
  }

  #begin(): void {
    if (!this.#stream.isHeadSent) this.#writer.respond(this.#stream, head, false);
  }

  #end(trailers: string): void {
    this.#hasStatus = true;
    this.#writer.finish(this.#stream, trailers);
  }
}

/** The gRPC status of a failed call: a code, and a message for the operator who configured the caller. */
export interface GrpcStatus {
  readonly code: number;
  /** ASCII. Never contains an address, a token or the path of a file. */
  readonly message: string;
}

/** Statuses that more than one method uses. */
export const statuses = {
  malformed: { code: grpcCodes.invalidArgument, message: "the message is not well-formed" },
  notAnAddress: { code: grpcCodes.invalidArgument, message: "the client's address is no IP address" },
  internal: { code: grpcCodes.internal, message: "the gateway failed to handle the call" },
  untrusted: { code: grpcCodes.permissionDenied, message: "this caller may not ask here" },
} as const;

/** `grpc-status` and, unless the message is empty, `grpc-message`, in which anything but printable ASCII is encoded. */
function statusFields({ code, message }: GrpcStatus): string[] {
  const status = ["grpc-status", `${code}`];
  return message === "" ? status : [...status, "grpc-message", message.replace(/[^ -$&-~]/g, encodeURIComponent)];
}

/** Parses `grpc-timeout`: at most eight digits and a unit. Undefined if it is malformed. */
export function readTimeoutMs(text: string): number | undefined {
  const match = /^(\d{1,8})([HMSmun])$/.exec(text);
  const unitMs = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 }[match?.[2] ?? ""];
  return unitMs === undefined ? undefined : Number(match?.[1]) * unitMs;
}

const prefixBytes = 5;

/** Puts the frame before a message. Each character is one byte. */
function framed(message: string): string {
  const { length } = message;
  return String.fromCharCode(0, length >>> 24, (length >>> 16) & 255, (length >>> 8) & 255, length & 255) + message;
}

/** Returns the message, without a copy, if these bytes are its frame and nothing else; null if not. */
export function onlyMessage(bytes: Buffer, maxBytes: number): Buffer | null {
  const length = bytes.length - prefixBytes;
  if (length < 0 || length > maxBytes || bytes[0] !== 0 || bytes.readUInt32BE(1) !== length) return null;
  return bytes.subarray(prefixBytes);
}

const smallestBuffer = 64;

/**
 * A message may come in this many pieces, and one more for each `bytesPerPiece`. Each piece costs about 10 µs besides
 * its bytes. Real callers send pieces of several KiB, or a few small ones.
 */
const freePieces = 64;
const bytesPerPiece = 64;

/**
 * The frame of a gRPC message: one byte says whether it is compressed, four bytes hold its length, then comes the
 * message. Each call of these services has one message. A message that is too large is refused by the length it
 * announces.
 */
export class MessageReader {
  readonly #maxBytes: number;
  readonly #held: ClientBytes;
  readonly #caller: string;
  /** Pieces are copied, because a small piece would keep the large buffer that it was read into. */
  #buffer: Buffer = empty;
  #length = 0;
  #pieces = 0;
  /** Length of prefix and message; null until the prefix has arrived. */
  #announced: number | null = null;

  /** `held`: the memory of the incomplete messages of all callers. */
  constructor(maxBytes: number, held: ClientBytes, caller: string) {
    this.#maxBytes = maxBytes;
    this.#held = held;
    this.#caller = caller;
  }

  /** Returns why the message is refused, or null. */
  push(piece: Buffer): GrpcStatus | null {
    const length = this.#length + piece.length;
    this.#pieces += 1;
    if (this.#pieces > freePieces + length / bytesPerPiece) return failures.tinyPieces;
    const flaw = this.#readPrefix(piece);
    if (flaw !== null) return flaw;
    if (this.#announced !== null && length > this.#announced) return failures.notOneMessage;
    if (!this.#grow(length)) return failures.tooManyBytes;
    piece.copy(this.#buffer, this.#length);
    this.#length = length;
    return null;
  }

  /** Returns the message. Call it when the request has ended. */
  whole(): Buffer | GrpcStatus {
    return this.#length === this.#announced ? this.#buffer.subarray(prefixBytes, this.#length) : failures.notOneMessage;
  }

  release(): void {
    this.#held.add(this.#caller, -this.#buffer.length);
    this.#buffer = empty;
    this.#length = 0;
  }

  /** Reads the prefix if `piece` completes it. */
  #readPrefix(piece: Buffer): GrpcStatus | null {
    if (this.#announced !== null || this.#length + piece.length < prefixBytes) return null;
    const prefix = Buffer.concat([this.#buffer.subarray(0, this.#length), piece.subarray(0, prefixBytes)]);
    if (prefix[0] === 1) return failures.compressed;
    if (prefix[0] !== 0) return failures.notOneMessage;
    this.#announced = prefixBytes + prefix.readUInt32BE(1);
    return this.#announced - prefixBytes > this.#maxBytes ? failures.tooLarge : null;
  }

  /**
   * Doubles the buffer, so that at least half of it is used. Returns false if the caller, or all together, would hold too
   * much.
   */
  #grow(length: number): boolean {
    if (length <= this.#buffer.length) return true;
    const doubled = Math.max(length, 2 * this.#buffer.length, smallestBuffer);
    const grown = Math.min(doubled, this.#announced ?? doubled);
    const grownBytes = grown - this.#buffer.length;
    if (!this.#held.add(this.#caller, grownBytes)) {
      this.#held.add(this.#caller, -grownBytes);
      return false;
    }
    const buffer = Buffer.allocUnsafeSlow(grown);
    this.#buffer.copy(buffer, 0, 0, this.#length);
    this.#buffer = buffer;
    return true;
  }
}

const empty = Buffer.alloc(0);

const failures = {
  compressed: { code: grpcCodes.unimplemented, message: "compressed messages are not supported" },
  notOneMessage: { code: grpcCodes.invalidArgument, message: "a call has exactly one whole message" },
  tooLarge: { code: grpcCodes.resourceExhausted, message: "the message is larger than allowed" },
  tinyPieces: { code: grpcCodes.resourceExhausted, message: "the message comes in too many small pieces" },
  tooManyBytes: { code: grpcCodes.resourceExhausted, message: "too many messages are being received" },
} as const;
