// One HTTP/2 connection: reads its socket into an HTTP/2 session, makes each stream an exchange of its own, and writes all that
// a turn of the event loop has for it at once. Bounds the requests, the time without a stream, and what waits to be written.
// Ends with two GOAWAYs, so that no request is lost.
import type { Socket } from "node:net";
import { type Peer, peerUnder } from "../../core/client-address.ts";
import { ignoreError } from "../../core/failure.ts";
import { type FrameBudget, FrameBudgets } from "../../core/frame-budget.ts";
import type { HeaderList } from "../../core/header-list.ts";
import { readHttp2Head } from "../../core/http2-head.ts";
import { localReplies } from "../../core/local-reply.ts";
import { OpenStreams } from "../../core/open-streams.ts";
import { HeadersMemory, HeadMemory, type RequestHead } from "../../core/request-head.ts";
import type { TrafficSettings } from "../../core/traffic-settings.ts";
import type { AcceptedSocket, ClientConnection, ConnectionPlace } from "../../exchange/connection.ts";
import { Exchange } from "../../exchange/exchange.ts";
import { copyOf } from "../../exchange/shared-reads.ts";
import { startOn } from "../../exchange/start-on.ts";
import { errorCodes } from "../../http2/protocol.ts";
import { type Http2Event, Http2Session } from "../../http2/session.ts";
import type { PeerTurn } from "../peer-turns.ts";
import { StallWatch } from "../stall-watch.ts";
import type { TransportOptions } from "../transport-options.ts";
import type { OpenHttp2 } from "../transports.ts";
import { type Http2Owner, Http2Transport } from "./http2-transport.ts";
import { TurnPieces } from "./turn-pieces.ts";

const maxStreams = 100;
const checkUnreadMs = 2_000;
/** With so much to be written, nothing is read: acknowledgements and responses without a body would add to it. */
const maxWaitingBytes = 256 * 1024;

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
interface ReadHead {
  readonly fields: HeaderList;
  readonly head: RequestHead;
}

export class Http2Connection implements ClientConnection, Http2Owner {
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
  readonly #turn: PeerTurn | null;
  /** It is read into a buffer that all connections share. */
  readonly #isShared: boolean;
  #lastHead: ReadHead | null = null;
  #requests = 0;
  #isBusy = false;
  /** `settle` follows. */
  #isInTurn = false;
  #isSettlingLater = false;
  #isFlushing = false;
  /** Read, but left for a later turn. */
  #held: Buffer | null = null;
  #isClosing = false;
  /** Since when the client has been sending a head. */
  #headSinceMs: number | null = null;
  #endedHeads = 0;
  #stall: StallWatch | null = null;
  #unreadTimer: NodeJS.Timeout | null = null;
  #lingerTimer: NodeJS.Timeout | null = null;

  constructor(
    { socket, tcp, peer }: AcceptedSocket,
    options: TransportOptions,
    shares: Http2Shares,
    turn: PeerTurn | null,
  ) {
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
    this.session = new Http2Session({ budget: this.#budget, nowMs, maxStreams, mayHaveBlanks: true });
    socket.on("end", this.#onEnd).on("error", ignoreError).on("close", this.#onClose);
    if (tcp !== socket) tcp.once("close", this.#onTcpClose);
    this.#isShared = options.reads?.take(socket, this.#onBytes) ?? false;
    if (!this.#isShared) socket.on("data", this.#onBytes);
    this.settleLater();
  }

  get activeCount(): number {
    return this.session.streams.size;
  }

  get idleTimeoutMs(): number {
    return this.#requests === 0 ? this.#settings.headTimeoutMs : this.#settings.keepAliveTimeoutMs;
  }

  get isFlushed(): boolean {
    return !this.#isFlushing && !this.session.hasOutput;
  }

  endWhenIdle(): void {
    this.session.beginEnd();
    this.#lingerTimer ??= setTimeout(this.#onAckLate, this.#options.http2.lingerMs);
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
    if (this.#isFlushing) {
      this.#stall ??= new StallWatch(this.socket, stallTimeoutMs);
      this.#stall.check(nowMs);
    } else this.#stall = null;
    this.#settle();
  }

  forgetHead(): void {
    this.#lastHead = null;
    this.session.forgetHead();
  }

  abort(): void {
    for (const { owner } of [...this.session.streams.values()]) owner?.exchange?.abort();
    this.socket.destroy();
    this.session.close();
    this.#settle();
  }

  settleLater(): void {
    if (this.#isInTurn || this.#isSettlingLater) return;
    this.#isSettlingLater = true;
    setImmediate(settleNow, this);
  }

  settleNow(): void {
    this.#isSettlingLater = false;
    this.#settle();
  }

  readonly #onBytes = (bytes: Buffer): void => {
    this.#turn?.onRead();
    if (this.#isClosing || this.session.isOver) return;
    if (this.#held !== null) this.#held = Buffer.concat([this.#held, bytes]);
    else if (this.#mayRead()) this.#read(bytes);
    else this.#hold(bytes);
  };

  #read(bytes: Buffer): void {
    const { session } = this;
    this.#isInTurn = true;
    session.beginTurn();
    session.feed(bytes);
    for (let event = session.next(); event !== null; event = session.next()) this.#onEvent(event);
    this.#isInTurn = false;
    const unread = session.takeUnread();
    if (unread.length > 0 && !session.isOver) {
      this.#hold(unread);
      setImmediate(readOn, this);
    }
    this.#settle();
  }

  #mayRead(): boolean {
    return !this.#isFlushing || this.session.waitingBytes < maxWaitingBytes;
  }

  /** Keeps bytes for a later turn, and reads nothing until then. */
  #hold(bytes: Buffer): void {
    this.#held = this.#isShared ? copyOf(bytes) : bytes;
    this.socket.pause();
  }

  /** Reads what was left for this turn, and then from the socket again. */
  readOn(): void {
    const held = this.#held;
    if (held === null || this.socket.destroyed || this.#isClosing || !this.#mayRead()) return;
    this.#held = null;
    this.#read(held);
    if (this.#held === null && !this.session.isOver) this.socket.resume();
  }

  #onEvent(event: Http2Event<Http2Transport>): void {
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
    this.#unreadTimer ??= setTimeout(this.#onCheckUnread, checkUnreadMs).unref();
    if (isTooLarge) exchange.reject(localReplies.headTooLarge);
    else startOn(this.place, exchange);
    if (this.#requests >= this.#settings.bounds.maxRequestsPerConnection && !session.isEnding) this.endWhenIdle();
  }

  #readHead(fields: HeaderList, endsWithHead: boolean): RequestHead {
    const peer = peerUnder(this.#options.settings.current.clientAddress, this.peer);
    const last = this.#lastHead;
    if (last?.fields === fields && last.head.peer === peer && last.head.endsWithHead === endsWithHead) return last.head;
    const { method, target, rawHeaders } = readHttp2Head(fields);
    const memory = fields === this.session.keptFields ? new HeadMemory(new HeadersMemory()) : null;
    const head = { peer, rawHeaders, method, target, httpVersion: "2", endsWithHead, memory };
    this.#lastHead = memory === null ? null : { fields, head };
    return head;
  }

  /** Call it after whatever may have ended streams, or has something to write. */
  #settle(): void {
    const { session } = this;
    if (this.#isInTurn) return;
    this.#isInTurn = true;
    for (const { owner } of session.takeClosed()) {
      if (owner === null) continue;
      this.#streams.remove(this.peer);
      owner.closed();
    }
    for (const { owner } of session.takeDrained()) owner?.exchange?.onDrain();
    if (this.#isBusy && session.streams.size === 0) {
      this.#isBusy = false;
      this.place?.end();
    }
    this.#flush();
    this.#isInTurn = false;
    // What has just been closed or may go on.
    if (session.hasClosed || session.hasDrained) this.settleLater();
    else if (session.isFinished) this.#end();
  }

  #flush(): void {
    const { socket, session } = this;
    if (this.#isFlushing || !session.hasOutput) return;
    const pieces = session.takeOutput();
    const last = pieces.length - 1;
    if (last < 0 || socket.destroyed || socket.writableEnded) return;
    this.#isFlushing = true;
    if (last > 0) socket.cork();
    for (let i = 0; i < last; i += 1) socket.write(pieces[i] ?? "", "latin1");
    socket.write(pieces[last] ?? "", "latin1", this.#onFlushed);
    if (last > 0) socket.uncork();
  }

  readonly #onFlushed = (error?: Error | null): void => {
    if (error !== undefined && error !== null) return;
    this.#isFlushing = false;
    this.#settle();
    this.readOn();
  };

  /** The client may still read what was written. After an error nothing more is read from it. */
  #end(): void {
    const { socket } = this;
    if (this.session.isOver) socket.pause();
    else if (this.#isFlushing) return;
    if (this.#isClosing) return;
    this.#isClosing = true;
    if (this.#lingerTimer !== null) clearTimeout(this.#lingerTimer);
    this.#lingerTimer = setTimeout(this.#onLingered, this.#options.http2.lingerMs);
    if (!this.session.isOver && !socket.destroyed) socket.end();
  }

  readonly #onLingered = (): void => void this.tcp.destroy();

  /** The client has not said that it has read the first GOAWAY. */
  readonly #onAckLate = (): void => {
    this.session.finishEnd();
    this.#settle();
  };

  readonly #onCheckUnread = (): void => {
    this.#unreadTimer = null;
    const count = this.session.resetUnread(this.#streams.isHalfFull(this.peer));
    for (let i = 0; i < count; i += 1) this.#options.http2.onReset("unread");
    if (this.session.streams.size > 0) this.#unreadTimer = setTimeout(this.#onCheckUnread, checkUnreadMs).unref();
    this.#settle();
  };

  /** A client that closes its sending side before the response has left. */
  readonly #onEnd = (): void => {
    if (this.session.streams.size > 0 || this.#isFlushing) this.socket.destroy();
    else this.socket.end();
  };

  readonly #onTcpClose = (): void => void this.socket.destroy();

  readonly #onClose = (): void => {
    this.session.close();
    this.#settle();
    this.#budget.close();
    this.#turn?.leave();
    this.place?.leave();
    clearTimeout(this.#unreadTimer ?? undefined);
    clearTimeout(this.#lingerTimer ?? undefined);
    this.#isClosing = true;
    this.#held = null;
  };
}

const noFields: HeaderList = [];

function readOn(connection: Http2Connection): void {
  connection.readOn();
}

function settleNow(connection: Http2Connection): void {
  connection.settleNow();
}
