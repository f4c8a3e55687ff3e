// One client connection of HTTP/1. Requests are started one after the other (RFC 9112, 9.3.2). Heads, bodies and pipelined
// requests may come in any pieces. Bytes that are no request get a last response. A head is mostly the same as the one
// before, and then not read again.
import type { Socket } from "node:net";
import { type Peer, peerUnder } from "../../core/client-address.ts";
import { ignoreError } from "../../core/failure.ts";
import { closeMs } from "../../core/http-bounds.ts";
import { type LocalReply, localReplies, type RefusalReason } from "../../core/local-reply.ts";
import type { Scheme, TrafficSettings } from "../../core/settings.ts";
import { mayUpgrade } from "../../core/upgrade.ts";
import type {
  AcceptedSocket,
  ClientConnection,
  ConnectionPlace,
  ConnectionRegistry,
  Portions,
} from "../../exchange/connection.ts";
import { Exchange, startOn } from "../../exchange/exchange.ts";
import { type PeerTurn, readSteps, type TurnWaiter, textSteps } from "../../exchange/peer-turns.ts";
import { maxCopiedBytes } from "../../exchange/socket-writes.ts";
import { copyOf } from "../../exchange/sockets.ts";
import { type BodyDecoder, ChunkDecoder, LengthDecoder, requestChunks } from "../../http1/body-decoder.ts";
import { emptyLineBytes, HeadScan } from "../../http1/request-head.ts";
import { requestSteps } from "../../http2/frame-reader.ts";
import { endAndLinger, rejectOnSocket } from "../socket-transport.ts";
import { StallWatch } from "../stall-watch.ts";
import type { TransportOptions } from "../transport-options.ts";
import { type Http1Owner, Http1Transport, type Http1Writing } from "./http1-transport.ts";
import { IncomingBody } from "./incoming-body.ts";
import { type ReadHead, RequestReader } from "./request-reader.ts";
import { UnreadBytes } from "./unread-bytes.ts";

export interface Http1Options extends TransportOptions, Http1Writing {
  readonly connections: ConnectionRegistry;
  /** The settings that were current when the connection was accepted. */
  readonly accepted: TrafficSettings;
  /** Reads the first head of each connection. */
  readonly firstReaders: Readonly<Record<Scheme, RequestReader>>;
  /** Calls `refuseLateHead` of those that are added. */
  readonly lateHeads: Portions<Http1Connection>;
}

/** The announced timeout is shorter by this, so that no request is sent while the connection is closed. */
const keepAliveGraceMs = 1_000;

/** How long a new connection is kept during a drain: its client is about to send a request. */
export const firstRequestMs = 300;

/** A longer target takes further steps, and so does a longer head. */
const shortTargetChars = 256;
const shortHeadBytes = 1024;
const bytesPerStep = 128;
/** Of a refusal: to see that a head has thousands of fields takes 0.4 ms. */
const refusalSteps = 256;

export class Http1Connection implements ClientConnection, Http1Owner, TurnWaiter {
  readonly socket: Socket;
  readonly tcp: Socket;
  readonly peer: Peer;
  readonly scheme: Scheme;
  readonly isTls: boolean;
  place: ConnectionPlace | null = null;
  isClosing = false;
  readonly #options: Http1Options;
  readonly #turn: PeerTurn;
  /** The socket is read into the buffer that all connections share: bytes that are kept have to be copied. */
  readonly #isReused: boolean;
  readonly #transport: Http1Transport;
  readonly #reader = new RequestReader("any");
  /** The peer under the current rules. */
  #currentPeer: Peer;
  #requests = 0;
  #asksToClose = false;
  /** The client may still send something: a line end behind the request, or whatever a client of HTTP/1.0 sends. */
  #maySendMore = false;
  #endsWhenIdle = false;
  /** `#read` is running, and continues with what it finds. */
  #isReading = false;
  /** The socket belongs to a tunnel. */
  #isTunnel = false;
  readonly #unread: UnreadBytes;
  /** Of an incomplete head: all unread bytes belong to it. */
  #scan: HeadScan | null = null;
  /** Set while the rest of a head is awaited. */
  #headTimer: NodeJS.Timeout | null = null;
  /** The reply to bytes that are no request. */
  #refusal: Exchange | null = null;
  /** Made when a request takes long enough to be checked. */
  #stall: StallWatch | null = null;

  constructor({ socket, tcp, peer, scheme }: AcceptedSocket, options: Http1Options, turn: PeerTurn) {
    this.socket = socket;
    this.tcp = tcp;
    this.peer = peer;
    this.#currentPeer = peer;
    this.scheme = scheme;
    this.isTls = socket !== tcp;
    this.#options = options;
    this.#turn = turn;
    this.#transport = new Http1Transport(this, options);
    this.#unread = new UnreadBytes(socket);
    socket.on("drain", this.#onDrain).on("end", this.#onEnd).on("error", ignoreError).on("close", this.#onClose);
    this.#isReused = options.reads?.take(socket, this.#onBytes) ?? false;
    if (!this.#isReused) socket.on("data", this.#onBytes).resume();
  }

  get activeCount(): number {
    return this.#isBusy() || this.#refusal?.isEnded === false ? 1 : 0;
  }

  get idleTimeoutMs(): number {
    // These have timers.
    if (this.isClosing || this.#headTimer !== null) return Number.POSITIVE_INFINITY;
    const { headTimeoutMs, keepAliveTimeoutMs } = this.#options.accepted;
    // A proxy may keep a connection among its idle ones before its first request.
    const isShort = this.#requests === 0 && !this.peer.isTrusted;
    return isShort ? headTimeoutMs : keepAliveTimeoutMs + keepAliveGraceMs;
  }

  get isLastRequest(): boolean {
    const { accepted, connections } = this.#options;
    return this.#asksToClose || this.#requests >= accepted.bounds.maxRequestsPerConnection || connections.isDraining;
  }

  endRequest({ endedMs, problem }: Exchange): void {
    this.place?.end(endedMs);
    if (this.isClosing) this.#end(problem);
    else if (!this.#isReading) this.#readOn(false);
  }

  endWhenIdle(): void {
    this.#endsWhenIdle = true;
    if (this.isClosing && this.activeCount === 0) this.socket.destroySoon();
    if (this.isClosing || this.#isAwaited()) return;
    // A new client is about to send a request, and would treat the close as a failure. The event loop runs timers before it
    // reads: after it has stood still for a moment, a request may have arrived.
    if (this.#requests > 0) this.#end();
    else setTimeout(() => setImmediate(this.#onNoRequest), firstRequestMs);
  }

  endIdle(): void {
    this.socket.destroy();
  }

  endStalled(nowMs: number): void {
    if (!this.#isBusy() || this.#isTunnel) return;
    this.#stall ??= new StallWatch(this.socket, this.#options.accepted.stallTimeoutMs);
    this.#stall.check(nowMs);
  }

  forgetHead(): void {
    this.#reader.forget();
  }

  abort(): void {
    this.#transport.abort();
    this.#transport.exchange?.abort();
    this.#refusal?.abort();
  }

  reset(): void {
    this.tcp.resetAndDestroy();
  }

  releaseSocket(): readonly Buffer[] | null {
    const { socket } = this;
    if (socket.readableEnded || !socket.writable) return null;
    this.#isTunnel = true;
    socket.off("drain", this.#onDrain).off("end", this.#onEnd);
    // The socket is paused until the tunnel begins.
    if (this.#isReused) this.#options.reads?.release(socket, nothing);
    else socket.off("data", this.#onBytes).pause();
    socket.on("data", () => this.#turn.onRead(readSteps, true));
    const early = this.#unread.take();
    return early.length === 0 ? [] : [early];
  }

  /** The head that has begun did not come in time. */
  refuseLateHead(): void {
    if (this.#headTimer === null || this.#isOver()) return;
    this.#refuse({ ...localReplies.slowRequest, detail: "timeouts.head" });
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

  /** From now on the connection is idle: it gives way to a new one. `problem`: of its last request. */
  #end(problem: RefusalReason | null = null): void {
    this.isClosing = true;
    this.place?.end();
    if (this.#mayCloseAtOnce()) this.socket.destroy();
    else endAndLinger(this.socket, this.#lingerMs(problem));
  }

  /** A client that was too slow has had its time. */
  #lingerMs(problem: RefusalReason | null): number {
    const { accepted, connections } = this.#options;
    return connections.isDraining || problem === "slow_request" ? closeMs : accepted.lingerMs;
  }

  /**
   * Returns whether the socket can be closed without lingering. A client that has sent `Connection: close` sends nothing more
   * (RFC 9112, 9.6), so no reset can overtake the response. An empty line may follow a body. TLS must send its close_notify.
   */
  #mayCloseAtOnce(): boolean {
    return this.#asksToClose && !this.#maySendMore && this.#unread.isEmpty && !this.isTls;
  }

  /** The peer's turn: more pipelined requests. */
  continueTurn(): void {
    if (!this.#isBusy() && !this.#isOver()) this.#readOn(false);
  }

  /** Continues with the bytes that were received during the last request. */
  #readOn(isPaid: boolean): void {
    const unread = this.#unread.take();
    if (unread.length > 0) this.#read(unread, false, isPaid);
    else if (this.#endsWhenIdle) this.#end();
  }

  // Reads requests until one is not answered in this call, or the peer's turn is over. `isReused`: bytes that are kept are
  // copied. `isPaid`: the first request counts with the read of the socket.
  #read(bytes: Buffer, isReused: boolean, isPaid: boolean): void {
    let rest = bytes;
    let steps = isPaid ? 0 : requestSteps;
    this.#isReading = true;
    while (!this.#isBusy() && !this.#isOver() && (steps === 0 || this.#turn.stepsLeft > 0)) {
      const emptyBytes = emptyLineBytes(rest);
      if (emptyBytes > 0) rest = rest.subarray(emptyBytes);
      if (rest.length === 0) break;
      const read = this.#nextHead(rest);
      if (read === null) break;
      steps += longHeadSteps(read);
      if (steps > 0) this.#turn.spend(steps);
      steps = requestSteps;
      const taken = this.#begin(read, rest, isReused);
      rest = taken === rest.length ? nothing : rest.subarray(taken);
    }
    this.#isReading = false;
    if (!this.#isOver()) this.#keepUnread(rest, isReused);
  }

  /** Reads the head at the beginning of the bytes. Returns null if it is not complete, or is refused. */
  #nextHead(bytes: Buffer): ReadHead | null {
    const reader = this.#requests === 0 ? this.#options.firstReaders[this.scheme] : this.#reader;
    const { headBounds } = this.#options.settings.current;
    const read = reader.read(bytes, this.#peerNow(), headBounds);
    if (read === "incomplete") {
      this.#scan = new HeadScan(headBounds);
      this.#scan.next(bytes);
      return null;
    }
    if (!("status" in read)) return read;
    this.#refuse(read);
    return null;
  }

  /** Of bytes that no request was read from. */
  #keepUnread(rest: Buffer, isReused: boolean): void {
    if (rest.length > 0) this.#unread.putBack(isReused ? copyOf(rest) : rest);
    this.#unread.readOn();
    if (rest.length > 0 && this.#scan === null && !this.#isBusy()) this.#turn.wait(this);
    // On a new connection, nothing but empty lines is a late head as well.
    if (this.#scan !== null || this.#requests === 0) this.#awaitHead();
    else if (!this.#isAwaited() && this.#endsWhenIdle) this.#end();
  }

  /** Goes on with a head. */
  #readHead(scan: HeadScan, bytes: Buffer, isPaid: boolean): void {
    this.#unread.add(bytes, true);
    const end = scan.next(this.#unread.peek());
    if (end === "incomplete") return;
    this.#scan = null;
    if (typeof end === "number") this.#readOn(isPaid);
    else this.#refuse(end);
  }

  #awaitHead(): void {
    this.#headTimer ??= setTimeout(this.#onLateHead, this.#options.accepted.headTimeoutMs);
  }

  /** Sends a last response to bytes that are no request. */
  #refuse(reply: LocalReply): void {
    this.isClosing = true;
    this.#stopTimer();
    this.#unread.take();
    this.place?.end();
    this.#turn.spend(refusalSteps);
    const lingerMs = this.#lingerMs(reply.reason);
    this.#refusal = rejectOnSocket(this.socket, this.#peerNow(), reply, this.#options.runtime, lingerMs);
  }

  #peerNow(): Peer {
    this.#currentPeer = peerUnder(this.#options.settings.current.clientAddress, this.#currentPeer);
    return this.#currentPeer;
  }

  /** Begins the request whose head stands at the beginning of the bytes. Returns how many of them belong to it. */
  #begin(read: ReadHead, bytes: Buffer, isReused: boolean): number {
    const { head, headBytes, bodyBytes, awaitsContinue, isLast, asksToUpgrade } = read;
    const transport = this.#transport;
    const { runtime, settings } = this.#options;
    const exchange = new Exchange(head, transport, runtime);
    this.#requests += 1;
    // Behind an Upgrade, allowed or not, nothing is read as a request.
    this.#asksToClose = isLast || asksToUpgrade;
    this.#maySendMore = bodyBytes !== 0 || asksToUpgrade || head.httpVersion === "1.0";
    if (this.#headTimer !== null) {
      this.#stopTimer();
      // What follows a head in pieces may come in pieces.
      this.#maySendMore = true;
    }
    let body: Buffer | IncomingBody = nothing;
    let end = headBytes + (bodyBytes ?? 0);
    if (bodyBytes === null || end > bytes.length) {
      body = new IncomingBody(this.socket, this.#decoderOf(bodyBytes), exchange);
      end = headBytes + body.begin(bytes.subarray(headBytes));
      // The rest of the body is to be read; from here on the body itself may stop that.
      if (!body.isComplete) this.#unread.readOn();
    } else if (bodyBytes > 0) {
      body = bytes.subarray(headBytes, end);
      if (isReused && bodyBytes > maxCopiedBytes) body = copyOf(body);
    }
    const isUpgrade = asksToUpgrade && mayUpgrade(head, settings.current.upgradeProtocols);
    transport.begin(exchange, body, end < bytes.length, awaitsContinue, isUpgrade);
    startOn(this.place, exchange);
    if (isReused && !exchange.isBodySent && !transport.isEnded) transport.keepBody();
    return end;
  }

  #decoderOf(bodyBytes: number | null): BodyDecoder {
    if (bodyBytes !== null) return new LengthDecoder(bodyBytes);
    return new ChunkDecoder(requestChunks, this.#options.runtime.current.nowMs);
  }

  #stopTimer(): void {
    if (this.#headTimer !== null) clearTimeout(this.#headTimer);
    this.#headTimer = null;
  }

  readonly #onBytes = (bytes: Buffer): void => {
    const isPaid = this.#turn.onRead(readSteps, true);
    const bodyBytes = this.#transport.receive(bytes);
    // Bytes after a last request are ignored.
    if (bodyBytes === bytes.length || this.isClosing) return;
    const rest = bodyBytes === 0 ? bytes : bytes.subarray(bodyBytes);
    if (this.#scan !== null) this.#readHead(this.#scan, rest, isPaid);
    else if (this.#isAwaited()) this.#unread.add(rest);
    else this.#read(rest, this.#isReused, isPaid);
  };

  readonly #onLateHead = (): void => this.#options.lateHeads.add(this);

  readonly #onNoRequest = (): void => {
    if (this.#requests === 0 && !this.#isAwaited() && !this.#isOver()) this.#end();
  };

  /** As in all transports, a client that closes its sending side before its response is complete counts as gone. */
  readonly #onEnd = (): void => {
    if (this.#isAwaited()) this.socket.destroy();
    else if (!this.isClosing) this.socket.end();
  };

  readonly #onDrain = (): void => this.#transport.exchange?.onDrain();

  readonly #onClose = (): void => {
    this.place?.leave();
    this.#turn.leave();
    this.#stopTimer();
    this.#transport.clientGone();
  };
}

function longHeadSteps({ head, headBytes }: ReadHead): number {
  const targetChars = head.target.length;
  return (
    (headBytes > shortHeadBytes ? headBytes / bytesPerStep : 0) +
    (targetChars > shortTargetChars ? textSteps(targetChars) : 0)
  );
}

const nothing = Buffer.alloc(0);
