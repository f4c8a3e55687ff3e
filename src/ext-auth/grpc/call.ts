// One gRPC call on one HTTP/2 stream. It ends once, with a status. A caller that has left gets no answer, and once the answer
// is complete the rest of the request is not read.
import { constants, type OutgoingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { HeaderList } from "../../core/header-list.ts";
import { framed } from "./message-frame.ts";
import { type GrpcStatus, grpcCodes, statusFields } from "./status.ts";

const head = { ":status": 200, "content-type": "application/grpc", "grpc-accept-encoding": "identity" };
const ok: GrpcStatus = { code: grpcCodes.ok, message: "" };

export interface CallParts {
  readonly stream: ServerHttp2Stream;
  readonly socket: Socket;
  /** Pseudo-header fields included. */
  readonly rawHeaders: HeaderList;
}

/** So that one listener serves all calls, and none is made for a call. */
const calls = new WeakMap<ServerHttp2Stream, GrpcCall>();

function sendTrailers(this: ServerHttp2Stream): void {
  calls.get(this)?.sendTrailers();
}

export class GrpcCall {
  readonly socket: Socket;
  /** Pseudo-header fields included. */
  readonly rawHeaders: HeaderList;
  readonly #stream: ServerHttp2Stream;
  readonly #onFail: (call: GrpcCall, status: GrpcStatus) => void;
  #status: GrpcStatus | null = null;

  constructor(parts: CallParts, onFail: (call: GrpcCall, status: GrpcStatus) => void) {
    this.#stream = parts.stream;
    this.rawHeaders = parts.rawHeaders;
    this.socket = parts.socket;
    this.#onFail = onFail;
    calls.set(parts.stream, this);
  }

  /** The call has its status, or the caller has left. */
  get isOver(): boolean {
    return this.#status !== null || this.#stream.destroyed || this.#stream.closed;
  }

  onClose(listener: () => void): void {
    if (this.#stream.destroyed) listener();
    else this.#stream.once("close", listener);
  }

  /** Sends one of several messages. */
  send(message: string): void {
    if (this.isOver) return;
    this.#begin();
    this.#stream.write(framed(message), "latin1");
  }

  /** Sends the only message, and ends the call. */
  reply(message: string): void {
    if (this.isOver) return;
    this.#begin();
    this.#end(ok, framed(message));
  }

  fail(status: GrpcStatus): void {
    if (this.isOver) return;
    this.#onFail(this, status);
    if (this.#stream.headersSent) {
      this.#end(status, "");
      return;
    }
    this.#status = status;
    refuseStream(this.#stream, { ...head, ...statusFields(status) });
  }

  #begin(): void {
    if (this.#stream.headersSent) return;
    this.#stream.respond(head, { waitForTrailers: true });
    this.#stream.once("wantTrailers", sendTrailers);
  }

  sendTrailers(): void {
    this.#stream.sendTrailers(statusFields(this.#status ?? ok));
  }

  #end(status: GrpcStatus, lastMessage: string): void {
    this.#status = status;
    this.#stream.end(lastMessage, "latin1");
  }
}

/** Sends a head without a body. The rest of the request is not read. */
export function refuseStream(stream: ServerHttp2Stream, head: OutgoingHttpHeaders): void {
  // If the stream was reset in the packet of its head, Node throws when it is answered.
  if (stream.destroyed || stream.closed) return;
  stream.respond(head, { endStream: true });
  if (stream.readableEnded) return;
  // A reset that is queued in the same turn as the head would replace it.
  setImmediate(closeStream, stream);
}

function closeStream(stream: ServerHttp2Stream): void {
  stream.close(constants.NGHTTP2_NO_ERROR);
}
