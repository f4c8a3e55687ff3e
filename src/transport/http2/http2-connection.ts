// One HTTP/2 connection: its streams are requests like any other, each decided and charged by itself. Bounded in
// streams at once, in requests, in resets, and in the time it may be without a stream; it ends with a GOAWAY that loses
// no request.
import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { Peer } from "../../core/client-address.ts";
import { maxFields, maxHeadBytes } from "../../core/head-bounds.ts";
import type { HeaderList } from "../../core/header-list.ts";
import { http2HeadBytes, readHttp2Head } from "../../core/http2-head.ts";
import { localReplies } from "../../core/local-reply.ts";
import type { AcceptedSocket, ClientConnection } from "../../exchange/connection.ts";
import { Exchange, type RuntimeRef } from "../../exchange/exchange.ts";
import { Http2Lifetime } from "../../exchange/http2-lifetime.ts";
import { Http2Transport, isAnswered, ResponseAbortedError } from "./http2-transport.ts";
import { ResetAllowance } from "./reset-allowance.ts";
import { keepSessionOnStreamErrors } from "./stream-errors.ts";

export interface Http2Options {
  readonly runtime: RuntimeRef;
  readonly nowMs: () => number;
  readonly headTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  /** How long nothing may move in either direction of a stream. */
  readonly stallTimeoutMs: number;
  readonly maxRequests: number;
}

const maxStreams = 100;

const sessionOptions = {
  // nghttp2 refuses streams beyond the bound itself, whether or not the client has agreed to it. Twice what is
  // accepted: what is larger is reset without an answer, and what is not can be told that it is too large.
  settings: { maxConcurrentStreams: maxStreams, maxHeaderListSize: 2 * maxHeadBytes, enablePush: false },
  maxHeaderListPairs: 2 * maxFields,
  // Else a value with a blank around it is dropped, where the request has to be refused.
  strictFieldWhitespaceValidation: false,
  // What upstreams send twice is passed on twice.
  strictSingleValueFields: false,
};

export class Http2Connection implements ClientConnection {
  readonly socket: Socket;
  readonly tcp: Socket;
  readonly peer: Peer;
  /** It has timers of its own; this is for the preface that never comes. */
  readonly idleTimeoutMs: number;
  onIdleChange: (isIdle: boolean) => void = () => {};
  readonly #options: Http2Options;
  readonly #session: ServerHttp2Session;
  readonly #lifetime: Http2Lifetime;
  readonly #resets: ResetAllowance;
  /** Streams that are open. */
  readonly #open = new Map<ServerHttp2Stream, Http2Transport>();
  #requests = 0;
  /** The client did what it may not: nothing more of it is looked at. */
  #isOver = false;

  constructor({ socket, tcp, peer }: AcceptedSocket, options: Http2Options) {
    this.socket = socket;
    this.tcp = tcp;
    this.peer = peer;
    this.#options = options;
    this.idleTimeoutMs = options.keepAliveTimeoutMs + options.headTimeoutMs;
    this.#resets = new ResetAllowance(options.nowMs);
    this.#session = performServerHandshake(socket, sessionOptions);
    keepSessionOnStreamErrors(this.#session, this.#open);
    this.#session.on("stream", (stream, _head, _flags, rawHead) => this.#onStream(stream, rawHead));
    // What a client did wrong it has been told by a GOAWAY; the end is told by the socket's "close".
    this.#session.on("error", ignoreBreak);
    const { headTimeoutMs: firstMs, keepAliveTimeoutMs: idleMs } = options;
    this.#lifetime = new Http2Lifetime(this.#session, tcp, { firstMs, idleMs });
  }

  get activeCount(): number {
    return this.#open.size;
  }

  endWhenIdle(): void {
    this.#lifetime.end();
  }

  abort(): void {
    for (const { exchange } of this.#open.values()) exchange?.abort();
    this.socket.destroy();
  }

  #onStream(stream: ServerHttp2Stream, rawHead: HeaderList): void {
    // A break is told by "close"; without a listener the error would end the process.
    stream.on("error", ignoreBreak);
    if (this.#session.destroyed) return;
    if (this.#isOver) {
      stream.close(constants.NGHTTP2_REFUSED_STREAM);
      return;
    }
    const { peer } = this;
    const { runtime, nowMs } = this.#options;
    const isTooLarge = rawHead.length / 2 > maxFields || http2HeadBytes(rawHead) > maxHeadBytes;
    const { method, target, rawHeaders } = readHttp2Head(isTooLarge ? [] : rawHead);
    const endsWithHead = stream.endAfterHeaders;
    const head = { peer, rawHeaders, method, target, httpVersion: "2", endsWithHead, nowMs: nowMs() };
    const transport = new Http2Transport(stream);
    const exchange = new Exchange(head, transport, runtime);
    transport.exchange = exchange;
    this.#begin(stream, transport);
    if (isTooLarge) exchange.reject(localReplies.headTooLarge);
    else exchange.start();
  }

  #begin(stream: ServerHttp2Stream, transport: Http2Transport): void {
    this.#open.set(stream, transport);
    this.#requests += 1;
    this.#lifetime.streamOpened();
    if (this.#open.size === 1) this.onIdleChange(false);
    stream.setTimeout(this.#options.stallTimeoutMs);
    stream.on("timeout", cancelStream).on("aborted", destroyStream);
    stream.on("finish", this.#onFinish).on("drain", this.#onDrain);
    if (stream.destroyed) this.#onStreamEnd(stream);
    else stream.once("close", this.#onClose);
    if (this.#requests >= this.#options.maxRequests) this.endWhenIdle();
  }

  // Listeners of every stream, which is their `this`: one function each for all streams of a connection.
  readonly #onFinish = this.#listener((transport) => transport.refuseBody());
  readonly #onDrain = this.#listener((transport) => transport.exchange?.onDrain());
  readonly #onClose = this.#listener((_, stream) => this.#onStreamEnd(stream));

  #onStreamEnd(stream: ServerHttp2Stream): void {
    const exchange = this.#open.get(stream)?.exchange;
    this.#open.delete(stream);
    if (isAnswered(stream)) exchange?.finished();
    else exchange?.clientGone();
    const isReset = !isAnswered(stream) && !(stream.errored instanceof ResponseAbortedError);
    if (isReset && !this.#session.destroyed && !this.#isOver && !this.#resets.take()) {
      this.#isOver = true;
      this.#lifetime.breakOff(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    }
    this.#lifetime.streamClosed();
    if (this.#open.size === 0 && !this.#isOver) this.onIdleChange(true);
  }

  #listener(act: (transport: Http2Transport, stream: ServerHttp2Stream) => void) {
    const open = this.#open;
    return function listener(this: ServerHttp2Stream): void {
      const transport = open.get(this);
      if (transport !== undefined) act(transport, this);
    };
  }
}

function ignoreBreak(): void {}

function cancelStream(this: ServerHttp2Stream): void {
  this.close(constants.NGHTTP2_CANCEL);
}

/** A client may reset without an error; what has come of the body would then end as if it were whole. */
function destroyStream(this: ServerHttp2Stream): void {
  this.destroy();
}
