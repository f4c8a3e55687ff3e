// One HTTP/2 connection of a client: makes each stream an exchange of its own. Bounds the requests, the time without a stream,
// and what waits to be written. Ends with two GOAWAYs, so that no request is lost.
import type { Socket } from "node:net";
import { type Peer, peerUnder } from "../../core/client-address.ts";
import { clientShare } from "../../core/client-share.ts";
import type { Http2ResetReason } from "../../core/connection-ends.ts";
import { ignoreError } from "../../core/failure.ts";
import type { HeaderList } from "../../core/headers.ts";
import { maxFields } from "../../core/http-bounds.ts";
import { localReplies } from "../../core/local-reply.ts";
import { HeadersMemory, HeadMemory, type RequestHead, readHttp2Head } from "../../core/request-head.ts";
import type { Replaceable, StreamSettings, TrafficSettings } from "../../core/settings.ts";
import type { AcceptedSocket, ClientConnection, ConnectionPlace } from "../../exchange/connection.ts";
import { Exchange, startOn } from "../../exchange/exchange.ts";
import { type DrivenConnection, Http2Driver } from "../../exchange/http2-driver.ts";
import { type PeerTurn, textSteps } from "../../exchange/peer-turns.ts";
import { checkAnsweredMs } from "../../http2/answered-streams.ts";
import { type FrameBudget, FrameBudgets } from "../../http2/frame-reader.ts";
import { errorCodes } from "../../http2/protocol.ts";
import { type Http2Event, Http2Session } from "../../http2/session.ts";
import { StallWatch } from "../stall-watch.ts";
import type { TransportOptions } from "../transport-options.ts";
import type { OpenHttp2 } from "../transports.ts";
import { type Http2Owner, Http2Transport } from "./http2-transport.ts";
import { TurnPieces } from "./stream-body.ts";

const maxStreams = 100;
const checkUnreadMs = 2_000;
/** Of what is to be written. */
const maxUnsentBytes = 256 * 1024;

/** What all HTTP/2 connections of a listener share: the budgets for frames, the bounds on open streams, and some memory. */
export class Http2Shares {
  readonly budgets: FrameBudgets;
  readonly streams: OpenStreams;
  readonly turnPieces = new TurnPieces();

  constructor({ runtime, settings }: TransportOptions) {
    this.budgets = new FrameBudgets(runtime.current.nowMs);
    this.streams = new OpenStreams(settings);
  }
}

/** Returns what opens the connections of one listener. */
export function http2Opener(options: TransportOptions): OpenHttp2 {
  const shares = new Http2Shares(options);
  return (accepted, turn) => new Http2Connection(accepted, options, shares, turn);
}

/** The last head, which serves all requests with the same fields from the same peer. */
interface LastHead {
  readonly fields: HeaderList;
  readonly head: RequestHead;
}

export class Http2Connection implements ClientConnection, Http2Owner, DrivenConnection<Http2Transport> {
  readonly socket: Socket;
  readonly tcp: Socket;
  readonly peer: Peer;
  readonly session: Http2Session<Http2Transport>;
  readonly turnPieces: TurnPieces;
  place: ConnectionPlace | null = null;
  readonly #options: TransportOptions;
  /** Those that were current when the connection was accepted. */
  readonly #settings: TrafficSettings;
  readonly #streams: OpenStreams;
  readonly #budget: FrameBudget;
  readonly #turn: PeerTurn;
  readonly #driver: Http2Driver<Http2Transport>;
  #lastHead: LastHead | null = null;
  #requests = 0;
  #isBusy = false;
  #isClosing = false;
  /** The socket is closed. */
  #isClosed = false;
  /** Since when the client has been sending a head. */
  #headSinceMs: number | null = null;
  #endedHeads = 0;
  #stall: StallWatch | null = null;
  #unreadTimer: NodeJS.Timeout | null = null;
  #answeredTimer: NodeJS.Timeout | null = null;
  #lingerTimer: NodeJS.Timeout | null = null;

  constructor({ socket, tcp, peer }: AcceptedSocket, options: TransportOptions, shares: Http2Shares, turn: PeerTurn) {
    this.socket = socket;
    this.tcp = tcp;
    this.peer = peer;
    this.#options = options;
    this.#settings = options.settings.current;
    this.#streams = shares.streams;
    this.turnPieces = shares.turnPieces;
    this.#turn = turn;
    this.#budget = shares.budgets.open(peer.isTrusted ? null : peer.key);
    const { nowMs } = options.runtime.current;
    const { headBounds, lingerMs } = this.#settings;
    const bounds = { maxStreams, maxHeaderBytes: headBounds.maxBytes, lingerMs };
    this.session = new Http2Session({ budget: this.#budget, turn, nowMs, ...bounds, mayHaveBlanks: true });
    socket.on("end", this.#onEnd).on("error", ignoreError).on("close", this.#onClose);
    if (tcp !== socket) tcp.on("close", this.#onTcpClose);
    this.#driver = new Http2Driver(socket, this.session, this, turn, maxUnsentBytes, options.reads, null);
    this.settleLater();
  }

  get activeCount(): number {
    return this.session.streams.size;
  }

  get idleTimeoutMs(): number {
    const isShort = this.#requests === 0 && !this.peer.isTrusted;
    return isShort ? this.#settings.headTimeoutMs : this.#settings.keepAliveTimeoutMs;
  }

  get isFlushed(): boolean {
    return this.#driver.isFlushed;
  }

  endWhenIdle(): void {
    this.session.beginEnd();
    this.#lingerTimer ??= setTimeout(Http2Connection.#onAckLate, this.#options.http2.closeMs, this);
    this.settleLater();
  }

  endIdle(): void {
    this.endWhenIdle();
  }

  endStalled(nowMs: number): void {
    const { session } = this;
    const { headTimeoutMs, stallTimeoutMs } = this.#settings;
    if (session.isInHead && session.endedHeads === this.#endedHeads) this.#headSinceMs ??= nowMs;
    else this.#headSinceMs = null;
    this.#endedHeads = session.endedHeads;
    if (this.#headSinceMs !== null && nowMs - this.#headSinceMs >= headTimeoutMs) {
      session.fail(errorCodes.enhanceYourCalm);
    }
    for (const stream of session.streams.values()) {
      if (stream.owner?.isStalled(nowMs, stallTimeoutMs) === true) session.reset(stream, errorCodes.cancel);
    }
    if (this.#driver.isFlushing) {
      this.#stall ??= new StallWatch(this.socket, stallTimeoutMs);
      this.#stall.check(nowMs);
    } else this.#stall = null;
    this.#driver.settle();
  }

  forgetHead(): void {
    this.#lastHead = null;
    this.session.forgetHead();
  }

  abort(): void {
    for (const { owner } of [...this.session.streams.values()]) owner?.exchange?.abort();
    this.socket.destroy();
    this.session.close();
    this.#driver.settle();
  }

  settleLater(): void {
    this.#driver.settleLater();
  }

  onEvent(event: Http2Event<Http2Transport>): void {
    switch (event.kind) {
      case "request":
        this.#onRequest(event);
        return;
      case "data": {
        const { stream, bytes, isEnd } = event;
        if (stream.owner === null) this.session.used(stream, bytes.length);
        else stream.owner.receive(bytes, isEnd);
        return;
      }
      case "malformed":
        this.#options.http2.onReset("malformed");
        return;
      case "over":
        if (event.reason !== null) this.#options.http2.onClosed(event.reason, this.peer.text);
    }
  }

  #onRequest({ stream, fields, isEnd, isTooLarge }: Extract<Http2Event<Http2Transport>, { kind: "request" }>): void {
    const { session } = this;
    const { runtime, http2 } = this.#options;
    const refusal = this.#streams.add(this.peer);
    if (refusal !== null) {
      http2.onReset(refusal);
      session.refuse(stream);
      return;
    }
    this.#isBusy = true;
    this.#requests += 1;
    const transport = new Http2Transport(this, stream, runtime.current.nowMs);
    const exchange = new Exchange(this.#readHead(isTooLarge ? noFields : fields, isEnd), transport, runtime);
    transport.exchange = exchange;
    stream.owner = transport;
    this.#checkUnreadLater();
    const { tooManyFields, headTooLarge } = localReplies;
    if (isTooLarge) exchange.reject(fields.length > 2 * maxFields ? tooManyFields : headTooLarge);
    else startOn(this.place, exchange);
    if (this.#requests >= this.#settings.bounds.maxRequestsPerConnection && !session.isEnding) this.endWhenIdle();
  }

  #readHead(fields: HeaderList, endsWithHead: boolean): RequestHead {
    const peer = peerUnder(this.#options.settings.current.clientAddress, this.peer);
    const last = this.#lastHead;
    if (last?.fields === fields && last.head.peer === peer && last.head.endsWithHead === endsWithHead) return last.head;
    const { method, target, rawHeaders } = readHttp2Head(fields);
    this.#turn.stepsLeft -= textSteps(target.length);
    const memory = fields === this.session.keptFields ? new HeadMemory(new HeadersMemory()) : null;
    const head: RequestHead = { peer, rawHeaders, method, target, httpVersion: "2", endsWithHead, memory };
    this.#lastHead = memory === null ? null : { fields, head };
    return head;
  }

  onStreamClosed(transport: Http2Transport): void {
    this.#streams.remove(this.peer);
    transport.closed();
  }

  onStreamDrained({ exchange }: Http2Transport): void {
    exchange?.onDrain();
  }

  onSettling(): void {
    if (!this.#isBusy || this.session.streams.size > 0 || this.session.hasClosed) return;
    this.#isBusy = false;
    this.place?.end();
  }

  onSettled(): void {
    if (this.#isClosed) this.place?.leave();
    else if (this.session.isFinished) this.#end();
    else if (this.session.hasAnswered) {
      this.#answeredTimer ??= setTimeout(Http2Connection.#onCheckAnswered, checkAnsweredMs, this);
    }
  }

  /** The client may still read what was written. After an error nothing more is read from it. */
  #end(): void {
    const { socket } = this;
    if (this.session.isOver) socket.pause();
    else if (this.#driver.isFlushing) return;
    if (this.#isClosing) return;
    this.#isClosing = true;
    this.#driver.stop();
    if (this.#lingerTimer !== null) clearTimeout(this.#lingerTimer);
    this.#lingerTimer = setTimeout(Http2Connection.#onLingered, this.#options.http2.closeMs, this);
    if (!this.session.isOver && !socket.destroyed) socket.end();
  }

  // For timers. One function for all: closures would take memory of each connection.

  static #onLingered({ tcp }: Http2Connection): void {
    tcp.destroy();
  }

  /** The client has not said that it has read the first GOAWAY. */
  static #onAckLate(connection: Http2Connection): void {
    connection.session.finishEnd();
    connection.#driver.settle();
  }

  static #onCheckUnread(connection: Http2Connection): void {
    connection.#checkUnread();
  }

  static #onCheckAnswered(connection: Http2Connection): void {
    const { session, peer } = connection;
    connection.#answeredTimer = null;
    session.resetAnswered(session.isEnding || connection.#streams.isHalfFull(peer));
    connection.#driver.settle();
  }

  #checkUnread(): void {
    this.#unreadTimer = null;
    const count = this.session.resetUnread(this.#streams.isHalfFull(this.peer));
    for (let i = 0; i < count; i += 1) this.#options.http2.onReset("unread");
    if (this.session.streams.size > 0) this.#checkUnreadLater();
    this.#driver.settle();
  }

  #checkUnreadLater(): void {
    this.#unreadTimer ??= setTimeout(Http2Connection.#onCheckUnread, checkUnreadMs, this).unref();
  }

  /** A client that closes its sending side before its response is complete counts as gone. */
  readonly #onEnd = (): void => {
    if (this.session.streams.size > 0 || this.#driver.isFlushing) this.socket.destroy();
    else this.socket.end();
  };

  readonly #onTcpClose = (): void => void this.socket.destroy();

  /** The place is left when all exchanges have ended. */
  readonly #onClose = (): void => {
    this.#isClosed = true;
    this.session.close();
    this.#driver.settle();
    this.#budget.close();
    this.#turn.leave();
    clearTimeout(this.#unreadTimer ?? undefined);
    clearTimeout(this.#answeredTimer ?? undefined);
    clearTimeout(this.#lingerTimer ?? undefined);
    this.#driver.stop();
  };
}

const noFields: HeaderList = [];

/**
 * Bounds the open HTTP/2 streams in the same way as connections: those of one peer on all its connections, and those of
 * all peers. Until its response is sent, a stream takes as much memory as an HTTP/1.1 connection.
 */
export class OpenStreams {
  readonly #settings: Replaceable<StreamSettings>;
  readonly #byPeer = new Map<string, number>();
  #count = 0;

  constructor(settings: Replaceable<StreamSettings>) {
    this.#settings = settings;
  }

  /** Adds a stream, or returns why it is refused. A trusted proxy has no bound of its own: it serves many clients. */
  add({ key, isTrusted }: Peer): Extract<Http2ResetReason, "per_peer" | "total"> | null {
    const { max } = this.#settings.current.streams;
    const ofPeer = this.#byPeer.get(key) ?? 0;
    if (this.#count >= max) return "total";
    if (!isTrusted && ofPeer >= this.#boundOfPeer()) return "per_peer";
    this.#byPeer.set(key, ofPeer + 1);
    this.#count += 1;
    return null;
  }

  remove({ key }: Peer): void {
    this.#count -= 1;
    const left = (this.#byPeer.get(key) ?? 0) - 1;
    if (left > 0) this.#byPeer.set(key, left);
    else this.#byPeer.delete(key);
  }

  /** Returns whether the peer has more than half of the streams that it may have. */
  isHalfFull({ key, isTrusted }: Peer): boolean {
    return !isTrusted && (this.#byPeer.get(key) ?? 0) * 2 > this.#boundOfPeer();
  }

  #boundOfPeer(): number {
    const { max, maxPerPeer } = this.#settings.current.streams;
    return Math.min(maxPerPeer, clientShare(max - this.#count, max));
  }
}
