// One call of gRPC on one stream of HTTP/2: it is answered once, and its end says how it went. A caller that has left is not
// answered, and one whose answer is over need not go on sending.
import { constants, type OutgoingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { framed } from "./message-frame.ts";
import { type GrpcStatus, grpcCodes, statusFields } from "./status.ts";

const head = { ":status": 200, "content-type": "application/grpc", "grpc-accept-encoding": "identity" };
const ok: GrpcStatus = { code: grpcCodes.ok, message: "" };

export interface CallParts {
  readonly stream: ServerHttp2Stream;
  readonly socket: Socket;
  /** Names and values alternating, pseudo fields among them. */
  readonly rawHeaders: readonly string[];
}

export class GrpcCall {
  /** Of who asks. */
  readonly socket: Socket;
  /** Names and values alternating, pseudo fields among them. */
  readonly rawHeaders: readonly string[];
  readonly #stream: ServerHttp2Stream;
  readonly #onFail: (status: GrpcStatus) => void;
  #status: GrpcStatus | null = null;

  constructor(parts: CallParts, onFail: (call: GrpcCall, status: GrpcStatus) => void) {
    this.#stream = parts.stream;
    this.rawHeaders = parts.rawHeaders;
    this.socket = parts.socket;
    this.#onFail = (status) => onFail(this, status);
  }

  /** Answered, or nobody is there to be answered. */
  get isOver(): boolean {
    return this.#status !== null || this.#stream.destroyed || this.#stream.closed;
  }

  onClose(listener: () => void): void {
    if (this.#stream.destroyed) listener();
    else this.#stream.once("close", listener);
  }

  /** One message of a few. */
  send(message: string): void {
    if (this.isOver) return;
    this.#begin();
    this.#stream.write(framed(message), "latin1");
  }

  /** The only message, and the end. */
  reply(message: string): void {
    if (this.isOver) return;
    this.#begin();
    this.#end(ok, framed(message));
  }

  fail(status: GrpcStatus): void {
    if (this.isOver) return;
    this.#onFail(status);
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
    this.#stream.once("wantTrailers", () => this.#stream.sendTrailers(statusFields(this.#status ?? ok)));
  }

  #end(status: GrpcStatus, lastMessage: string): void {
    this.#status = status;
    this.#stream.end(lastMessage, "latin1");
  }
}

/** A head and nothing else; what the caller still sends of its request is not read. */
export function refuseStream(stream: ServerHttp2Stream, head: OutgoingHttpHeaders): void {
  // A reset may have come in the packet of its head: Node throws for an answer then.
  if (stream.destroyed || stream.closed) return;
  stream.respond(head, { endStream: true });
  if (stream.readableEnded) return;
  // A reset that is queued beside the head would take its place.
  setImmediate(() => stream.close(constants.NGHTTP2_NO_ERROR));
}
