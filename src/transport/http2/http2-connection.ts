// One HTTP/2 connection. Each stream is a request, decided and charged by itself. Bounds the concurrent streams, the
// requests, the resets, the frames that carry nothing, the decoded size of heads, and the time without a stream. Ends
// with a GOAWAY, so that no request is lost.
import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import { type Peer, peerUnder } from "../../core/client-address.ts";
import { ignoreError } from "../../core/failure.ts";
import { FrameBudgets } from "../../core/frame-budget.ts";
import { maxFields, maxHeadBytes } from "../../core/head-bounds.ts";
import type { HeaderList } from "../../core/header-list.ts";
import { type Http2CloseReason, http2CloseCode } from "../../core/http2-bounds.ts";
import { http2HeadBytes, readHttp2Head } from "../../core/http2-head.ts";
import { localReplies } from "../../core/local-reply.ts";
import { OpenStreams } from "../../core/open-streams.ts";
import type { TrafficSettings } from "../../core/traffic-settings.ts";
import type { AcceptedSocket, ClientConnection, ConnectionPlace } from "../../exchange/connection.ts";
import { Exchange } from "../../exchange/exchange.ts";
import { clearForgottenTimeout } from "../../exchange/forgotten-timeout.ts";
import { GuardedSocket } from "../../exchange/http2-guarded-socket.ts";
import { Http2Lifetime } from "../../exchange/http2-lifetime.ts";
import { startOn } from "../../exchange/start-on.ts";
import type { TransportOptions } from "../transport-options.ts";
import { Http2Transport, isAnswered, ResponseAbortedError } from "./http2-transport.ts";
import { ResetAllowance } from "./reset-allowance.ts";
import { keepSessionOnStreamErrors } from "./stream-errors.ts";
import { UnreadResponses } from "./unread-responses.ts";

const maxStreams = 100;

const sessionOptions = {
  // nghttp2 refuses more streams even before the client has acknowledged the bound. It resets a stream with a larger
  // head without a response, so it is given twice our bound: a client with a head between the two gets a 431.
  settings: { maxConcurrentStreams: maxStreams, maxHeaderListSize: 2 * maxHeadBytes, enablePush: false },
  maxHeaderListPairs: 2 * maxFields,
  // Otherwise nghttp2 drops a header with a blank around its value, and the request must be refused instead.
  strictFieldWhitespaceValidation: false,
  // Otherwise Node refuses to send a header that the upstream repeats.
  strictSingleValueFields: false,
};

/** What all HTTP/2 connections of a listener share: the budgets for frames, and the bounds on open streams. */
export class Http2Shares {
  readonly budgets: FrameBudgets;
  readonly streams: OpenStreams;

  constructor({ runtime, settings }: TransportOptions) {
    this.budgets = new FrameBudgets(runtime.current.nowMs);
    this.streams = new OpenStreams(settings);
  }
}

/** Returns what opens the connections of one listener. */
export function http2Opener(options: TransportOptions): (accepted: AcceptedSocket) => Http2Connection {
  const shares = new Http2Shares(options);
  return (accepted) => new Http2Connection(accepted, options, shares);
}

export class Http2Connection implements ClientConnection {
  readonly socket: Socket;
  readonly tcp: Socket;
  readonly peer: Peer;
  /** For a connection without a preface; afterwards Http2Lifetime has timers of its own. */
  readonly idleTimeoutMs: number;
  place: ConnectionPlace | null = null;
  readonly #options: TransportOptions;
  /** Those that were current when the connection was accepted. */
  readonly #settings: TrafficSettings;
  readonly #streams: OpenStreams;
  readonly #guarded: GuardedSocket;
  readonly #session: ServerHttp2Session;
  readonly #lifetime: Http2Lifetime;
  readonly #resets: ResetAllowance;
  readonly #unread: UnreadResponses;
  /** The open streams. */
  readonly #open = new Map<ServerHttp2Stream, Http2Transport>();
  #requests = 0;
  /** The client exceeded a bound, and the connection is being closed: new streams are refused. */
  #isOver = false;

  constructor({ socket, tcp, peer }: AcceptedSocket, options: TransportOptions, shares: Http2Shares) {
    this.socket = socket;
    this.tcp = tcp;
    this.peer = peer;
    this.#options = options;
    this.#settings = options.settings.current;
    const { headTimeoutMs: firstMs, keepAliveTimeoutMs: idleMs, stallTimeoutMs } = this.#settings;
    this.idleTimeoutMs = idleMs + firstMs;
    this.#resets = new ResetAllowance(options.runtime.current.nowMs);
    this.#streams = shares.streams;
    const budget = shares.budgets.open(peer.isTrusted ? null : peer.key);
    tcp.once("close", () => {
      budget.close();
      this.#unread.stop();
    });
    socket.once("close", () => this.place?.leave());
    this.#guarded = new GuardedSocket(socket, budget, (reason) => this.#breakOff(reason));
    this.#session = performServerHandshake(this.#guarded.asDuplex, sessionOptions);
    keepSessionOnStreamErrors(this.#session, this.#open);
    this.#session.on("stream", (stream, _head, _flags, rawHead) => this.#onStream(stream, rawHead));
    // nghttp2 has sent a GOAWAY by now, and the socket's "close" follows.
    this.#session.on("error", ignoreError);
    this.#lifetime = new Http2Lifetime(this.#session, tcp, { firstMs, idleMs, lingerMs: options.http2.lingerMs });
    this.#session.setTimeout(stallTimeoutMs, () => this.#lifetime.endStalled());
    this.#unread = new UnreadResponses(
      this.#open,
      () => this.#streams.isHalfFull(peer),
      () => this.#guarded.sentBytes,
      options.http2.onReset,
    );
  }

  get activeCount(): number {
    return this.#lifetime.openCount;
  }

  endWhenIdle(): void {
    this.#lifetime.end();
  }

  /** Node's session has a timer. */
  endStalled(): void {}

  /** It remembers none. */
  forgetHead(): void {}

  abort(): void {
    for (const { exchange } of this.#open.values()) exchange?.abort();
    this.socket.destroy();
  }

  #onStream(stream: ServerHttp2Stream, rawHead: HeaderList): void {
    stream.on("error", ignoreError);
    if (this.#session.destroyed) return;
    if (this.#isOver || !this.#takesStream()) {
      stream.close(constants.NGHTTP2_REFUSED_STREAM);
      return;
    }
    this.#guarded.guard.onRequest();
    const { runtime, settings } = this.#options;
    const peer = peerUnder(settings.current.clientAddress, this.peer);
    const isTooLarge = rawHead.length / 2 > maxFields || http2HeadBytes(rawHead) > maxHeadBytes;
    const { method, target, rawHeaders } = readHttp2Head(isTooLarge ? [] : rawHead);
    const endsWithHead = stream.endAfterHeaders;
    const head = { peer, rawHeaders, method, target, httpVersion: "2", endsWithHead };
    const transport = new Http2Transport(stream);
    const exchange = new Exchange(head, transport, runtime);
    transport.exchange = exchange;
    this.#begin(stream, transport);
    if (isTooLarge) exchange.reject(localReplies.headTooLarge);
    else startOn(this.place, exchange);
  }

  #takesStream(): boolean {
    const refusal = this.#streams.add(this.peer);
    if (refusal !== null) this.#options.http2.onReset(refusal);
    return refusal === null;
  }

  #begin(stream: ServerHttp2Stream, transport: Http2Transport): void {
    this.#open.set(stream, transport);
    this.#requests += 1;
    this.#lifetime.streamOpened();
    this.#unread.watch();
    stream.setTimeout(this.#settings.stallTimeoutMs);
    stream.on("timeout", cancelStream).on("aborted", destroyStream);
    stream.on("finish", this.#onFinish).on("drain", this.#onDrain);
    if (stream.destroyed) this.#onStreamEnd(stream);
    else stream.once("close", this.#onClose);
    if (this.#requests >= this.#settings.bounds.maxRequestsPerConnection) this.endWhenIdle();
  }

  // The streams of a connection share these listeners and are their `this`, so that no closure is made for a request.
  readonly #onFinish = this.#listener((transport) => transport.refuseBody());
  readonly #onDrain = this.#listener((transport) => transport.exchange?.onDrain());
  readonly #onClose = this.#listener((_, stream) => this.#onStreamEnd(stream));

  #onStreamEnd(stream: ServerHttp2Stream): void {
    const exchange = this.#open.get(stream)?.exchange;
    this.#open.delete(stream);
    this.#streams.remove(this.peer);
    clearForgottenTimeout(stream);
    if (isAnswered(stream)) exchange?.finished();
    else exchange?.clientGone();
    const isReset = !isAnswered(stream) && !(stream.errored instanceof ResponseAbortedError);
    if (isReset && !this.#session.destroyed && !this.#isOver && !this.#resets.take()) this.#breakOff("resets");
    this.#lifetime.streamClosed();
    if (this.activeCount === 0 && !this.#isOver) this.place?.end();
  }

  #breakOff(reason: Http2CloseReason): void {
    this.#isOver = true;
    this.#options.http2.onClosed(reason, this.peer.text);
    this.#lifetime.breakOff(http2CloseCode(reason));
  }

  #listener(act: (transport: Http2Transport, stream: ServerHttp2Stream) => void) {
    const open = this.#open;
    return function listener(this: ServerHttp2Stream): void {
      const transport = open.get(this);
      if (transport !== undefined) act(transport, this);
    };
  }
}

function cancelStream(this: ServerHttp2Stream): void {
  this.close(constants.NGHTTP2_CANCEL);
}

/** A client may reset without an error. Without this, an incomplete body would end as if it were complete. */
function destroyStream(this: ServerHttp2Stream): void {
  this.destroy();
}
