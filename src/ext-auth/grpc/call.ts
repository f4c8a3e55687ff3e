// One gRPC call on one HTTP/2 stream. It ends once, with a status. A caller that has left gets no answer, and once the answer
// is complete the rest of the request is not read.
import type { Socket } from "node:net";
import type { HeaderList } from "../../core/headers.ts";
import { encodeFields } from "../../http2/hpack.ts";
import type { Http2Stream } from "../../http2/responses.ts";
import { framed, type MessageReader } from "./message-frame.ts";
import { type GrpcStatus, grpcCodes, statusFields } from "./status.ts";

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
export interface CallCarrier {
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
  readonly #carrier: CallCarrier;
  readonly #stream: Http2Stream<GrpcCall>;
  readonly #onFail: (call: GrpcCall, status: GrpcStatus) => void;
  #hasStatus = false;
  #onClose: (() => void) | null = null;

  constructor(
    carrier: CallCarrier,
    stream: Http2Stream<GrpcCall>,
    rawHeaders: HeaderList,
    onFail: (call: GrpcCall, status: GrpcStatus) => void,
  ) {
    this.#carrier = carrier;
    this.#stream = stream;
    this.rawHeaders = rawHeaders;
    this.#onFail = onFail;
  }

  get socket(): Socket {
    return this.#carrier.socket;
  }

  get address(): string {
    return this.#carrier.address;
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
    this.#carrier.write(this.#stream, framed(message));
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
    this.#carrier.respond(this.#stream, encodeFields([...headFields, ...fields]), true);
  }

  #begin(): void {
    if (!this.#stream.isHeadSent) this.#carrier.respond(this.#stream, head, false);
  }

  #end(trailers: string): void {
    this.#hasStatus = true;
    this.#carrier.finish(this.#stream, trailers);
  }
}
