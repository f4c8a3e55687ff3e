// One client connection of HTTP/1 without Node's HTTP server, which would cost several times as much, for as long as it
// sends simple requests. Pipelined requests are started one after the other, and a head or a body may come in pieces. The
// first head that is anything else is handed off unchanged to Node's parser, together with the connection.
import type { Socket } from "node:net";
import { type Peer, peerUnder } from "../../core/client-address.ts";
import { ignoreError } from "../../core/failure.ts";
import type { TrafficSettings } from "../../core/traffic-settings.ts";
import type { AcceptedSocket, ClientConnection, ConnectionPlace } from "../../exchange/connection.ts";
import { Exchange } from "../../exchange/exchange.ts";
import { lingerMs } from "../../exchange/http1-bounds.ts";
import { copyOf } from "../../exchange/shared-reads.ts";
import { startOn } from "../../exchange/start-on.ts";
import { maxCopiedBytes } from "../../exchange/write-buffer.ts";
import { ChunkDecoder, LengthDecoder, requestChunks } from "../../http1/body-decoder.ts";
import { isEmptyLines } from "../../http1/simple-request.ts";
import { afterReading, firstRequestMs } from "../http1-socket.ts";
import type { PeerTurn } from "../peer-turns.ts";
import { StallWatch } from "../stall-watch.ts";
import type { TransportOptions } from "../transport-options.ts";
import { IncomingBody } from "./incoming-body.ts";
import { type RawHttp1Owner, RawHttp1Transport, type RawWriting } from "./raw-http1-transport.ts";
import { type ReadHead, RequestReader } from "./request-reader.ts";
import { UnreadBytes } from "./unread-bytes.ts";

export interface RawHttp1Options extends TransportOptions, RawWriting {
  /** The settings that were current when the connection was accepted. */
  readonly accepted: TrafficSettings;
  /** Reads the first head of each connection. */
  readonly firstReader: RequestReader;
  /** Takes the socket over with all unhandled bytes in it; `requests` have been answered on it. */
  readonly handOff: (connection: RawHttp1Connection, accepted: AcceptedSocket, requests: number) => void;
}

/** The announced timeout is shorter by this, so that no request is sent while the connection is closed. */
const keepAliveGraceMs = 1_000;

/**
 * The rest of a head that the network has split comes within milliseconds. What takes longer, or comes in more pieces, is
 * left to Node's server, which enforces the timeout of heads.
 */
const splitHeadMs = 200;
const maxHeadPieces = 8;

/** Pipelined requests that are answered at once; more wait for the next turn of the event loop. */
const maxRequestsInTurn = 32;

export class RawHttp1Connection implements ClientConnection, RawHttp1Owner {
  readonly socket: Socket;
  readonly tcp: Socket;
  readonly peer: Peer;
  readonly scheme: "http" | "https";
  place: ConnectionPlace | null = null;
  isClosing = false;
  readonly #options: RawHttp1Options;
  /** Null: the peer may have all its connections read. */
  readonly #turn: PeerTurn | null;
  /** The socket is read into the buffer that all connections share: bytes that are kept have to be copied. */
  readonly #isShared: boolean;
  readonly #transport: RawHttp1Transport;
  readonly #reader = new RequestReader("any");
  /** The peer under the current rules. */
  #judgedPeer: Peer;
  #requests = 0;
  #asksToClose = false;
  /** A line end may follow the current request, or what an old client sends. */
  #maySendMore = false;
  #endsWhenIdle = false;
  /** `#read` is running, and goes on by itself. */
  #isReading = false;
  readonly #unread: UnreadBytes;
  /** Pieces that have come of a head that is not complete. */
  #headPieces = 0;
  #timer: NodeJS.Timeout | null = null;
  /** Made when a request takes so long that it is asked. */
  #stall: StallWatch | null = null;

  constructor({ socket, tcp, peer }: AcceptedSocket, options: RawHttp1Options, turn: PeerTurn | null) {
    this.socket = socket;
    this.tcp = tcp;
    this.peer = peer;
    this.#judgedPeer = peer;
    this.scheme = socket === tcp ? "http" : "https";
    this.#options = options;
    this.#turn = turn;
    this.#transport = new RawHttp1Transport(this, options);
    this.#unread = new UnreadBytes(socket);
    socket.on("drain", this.#onDrain).on("end", this.#onEnd).on("error", ignoreError).on("close", this.#onClose);
    this.#isShared = options.reads?.take(socket, this.#onBytes) ?? false;
    if (!this.#isShared) socket.on("data", this.#onBytes).resume();
  }

  get activeCount(): number {
    return this.#isBusy() ? 1 : 0;
  }

  get idleTimeoutMs(): number {
    if (this.isClosing) return lingerMs;
    const { headTimeoutMs, keepAliveTimeoutMs } = this.#options.accepted;
    return this.#requests === 0 ? headTimeoutMs : keepAliveTimeoutMs + keepAliveGraceMs;
  }

  get isLastRequest(): boolean {
    const { accepted, isDraining } = this.#options;
    return this.#asksToClose || this.#requests >= accepted.bounds.maxRequestsPerConnection || isDraining();
  }

  endRequest(nowMs: number): void {
    this.place?.end(nowMs);
    if (this.isClosing) this.#end();
    else if (!this.#isReading) this.#readOn();
  }

  endWhenIdle(): void {
    this.#endsWhenIdle = true;
    if (this.#isAwaited()) return;
    // A new client is about to send a request, and would treat the close as a failure. The timer is null once it has sent one.
    if (this.#requests > 0) this.#end();
    else this.#timer = afterReading(firstRequestMs, () => this.#timer === null || this.#isAwaited() || this.#end());
  }

  endIdle(): void {
    this.socket.destroy();
  }

  endStalled(nowMs: number): void {
    if (!this.#isBusy()) return;
    this.#stall ??= new StallWatch(this.socket, this.#options.accepted.stallTimeoutMs);
    this.#stall.check(nowMs);
  }

  forgetHead(): void {
    this.#reader.forget();
  }

  abort(): void {
    this.#transport.abort();
    this.#transport.exchange?.abort();
  }

  reset(): void {
    this.tcp.resetAndDestroy();
  }

  #isBusy(): boolean {
    return this.#transport.exchange !== null;
  }

  /** A request is in progress, or has begun to arrive. */
  #isAwaited(): boolean {
    return this.#isBusy() || !this.#unread.isEmpty;
  }

  #isOver(): boolean {
    return this.isClosing || this.socket.destroyed;
  }

  /** Reads and ignores what the client still sends (see `endAndLinger`), until it closes or `lingerMs` have passed. */
  #end(): void {
    this.isClosing = true;
    this.place?.end();
    this.#stopTimer();
    const { socket } = this;
    if (this.#mayCloseAtOnce()) {
      socket.destroy();
      return;
    }
    if (socket.isPaused()) socket.resume();
    socket.end();
  }

  /**
   * A client that has asked for the end sends nothing more (RFC 9112, 9.6), so no reset can overtake the response. An empty
   * line may come behind a body. TLS has an end of its own to send.
   */
  #mayCloseAtOnce(): boolean {
    return this.#asksToClose && !this.#maySendMore && this.#unread.isEmpty && this.scheme === "http";
  }

  /** Goes on with what has been received meanwhile. */
  #readOn(): void {
    const unread = this.#unread.take();
    if (unread !== null) this.#read(unread, false);
    else if (this.#endsWhenIdle) this.#end();
  }

  /** Reads requests one after the other until one is not answered at once. `isShared`: bytes that are kept are copied. */
  #read(bytes: Buffer, isShared: boolean): void {
    let rest = bytes;
    let isBegun = false;
    this.#isReading = true;
    for (let left = maxRequestsInTurn; left > 0 && rest.length > 0 && !this.#isBusy() && !this.#isOver(); left -= 1) {
      const read = (this.#requests === 0 ? this.#options.firstReader : this.#reader).read(rest, this.#peerNow());
      if (read === "begun") {
        isBegun = true;
        break;
      }
      if (read === "other") {
        this.#isReading = false;
        this.#handOff(rest);
        return;
      }
      const taken = this.#begin(read, rest, isShared);
      rest = taken === rest.length ? nothing : rest.subarray(taken);
    }
    this.#isReading = false;
    if (this.#isOver()) return;
    if (rest.length > 0) this.#unread.putBack(isShared ? copyOf(rest) : rest);
    this.#unread.readOn();
    if (isBegun) this.#awaitHead();
    else if (rest.length > 0 && !this.#isBusy()) setImmediate(this.#onTurn);
    else if (!this.#isAwaited() && this.#endsWhenIdle) this.#end();
  }

  /** Waits for the rest of a head. */
  #awaitHead(): void {
    this.#headPieces += 1;
    if (this.#headPieces > maxHeadPieces) this.#onLateHead();
    else this.#timer ??= setTimeout(this.#onLateHead, splitHeadMs);
  }

  #peerNow(): Peer {
    const { clientAddress } = this.#options.settings.current;
    if (clientAddress !== this.#judgedPeer.rules) this.#judgedPeer = peerUnder(clientAddress, this.#judgedPeer);
    return this.#judgedPeer;
  }

  /** Begins the request whose head stands at the beginning of the bytes. Returns how many of them belong to it. */
  #begin({ head, headBytes, bodyBytes, awaitsContinue, isLast }: ReadHead, bytes: Buffer, isShared: boolean): number {
    const transport = this.#transport;
    const exchange = new Exchange(head, transport, this.#options.runtime);
    this.#requests += 1;
    this.#headPieces = 0;
    this.#asksToClose = isLast;
    this.#maySendMore = bodyBytes !== 0 || head.httpVersion === "1.0";
    if (this.#timer !== null) this.#stopTimer();
    let body: Buffer | IncomingBody = nothing;
    let end = headBytes + (bodyBytes ?? 0);
    if (bodyBytes === null || end > bytes.length) {
      const { nowMs } = this.#options.runtime.current;
      const decoder = bodyBytes === null ? new ChunkDecoder(requestChunks, nowMs) : new LengthDecoder(bodyBytes);
      body = new IncomingBody(this.socket, decoder, exchange);
      end = headBytes + body.begin(bytes.subarray(headBytes));
      // The rest of the body is to be read; from here on the body itself may stop that.
      if (!body.isComplete) this.#unread.readOn();
    } else if (bodyBytes > 0) {
      body = bytes.subarray(headBytes, end);
      if (isShared && bodyBytes > maxCopiedBytes) body = copyOf(body);
    }
    transport.begin(exchange, body, end < bytes.length, awaitsContinue);
    startOn(this.place, exchange);
    if (isShared && !exchange.isBodySent && !transport.isEnded) transport.keepBody();
    return end;
  }

  #handOff(unread: Buffer): void {
    const { socket, tcp, peer } = this;
    this.#stopTimer();
    socket.off("drain", this.#onDrain).off("end", this.#onEnd).off("error", ignoreError).off("close", this.#onClose);
    // The socket is paused meanwhile, because without a listener flowing data would be lost.
    if (this.#isShared) this.#options.reads?.release(socket, unread);
    else socket.off("data", this.#onBytes).pause().unshift(unread);
    this.#turn?.follow();
    const accepted = { socket, tcp, peer, headerBytes: socket.bytesRead - unread.length };
    this.#options.handOff(this, accepted, this.#requests);
    socket.resume();
  }

  #stopTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  readonly #onBytes = (bytes: Buffer): void => {
    this.#turn?.onRead();
    const bodyBytes = this.#transport.receive(bytes);
    // Bytes after a last request are ignored.
    if (bodyBytes === bytes.length || this.isClosing) return;
    const rest = bodyBytes === 0 ? bytes : bytes.subarray(bodyBytes);
    // While a head is awaited, nothing else is: it goes on with these bytes.
    if (this.#isBusy() || (!this.#unread.isEmpty && this.#headPieces === 0)) this.#unread.add(rest);
    else if (!this.#unread.isEmpty) this.#read(Buffer.concat([this.#unread.take() ?? nothing, rest]), false);
    // Empty lines must not start the timeout of a head.
    else if (this.#requests === 0 || !isEmptyLines(rest)) this.#read(rest, this.#isShared);
  };

  /** The next turn of the event loop: more pipelined requests. */
  readonly #onTurn = (): void => {
    if (!this.#isBusy() && !this.#isOver()) this.#readOn();
  };

  readonly #onLateHead = (): void => {
    const begun = this.#unread.take();
    if (begun !== null && !this.#isOver()) this.#handOff(begun);
  };

  /** As in all transports, a client that closes its sending side before the response has left. */
  readonly #onEnd = (): void => {
    if (this.#isAwaited()) this.socket.destroy();
    else if (!this.isClosing) this.socket.end();
  };

  readonly #onDrain = (): void => this.#transport.exchange?.onDrain();

  readonly #onClose = (): void => {
    this.place?.leave();
    this.#turn?.leave();
    this.#stopTimer();
    this.#transport.clientGone();
  };
}

const nothing = Buffer.alloc(0);
