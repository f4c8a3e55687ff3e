// One client connection that Node's parser reads: its current request, the queue of pipelined requests, and its end.
// Pipelined requests are started one after the other, because Node delivers them all at once and RFC 9112, 9.3.2 allows
// parallel processing only for safe methods.
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Peer } from "../../core/client-address.ts";
import type { LocalReply } from "../../core/local-reply.ts";
import type { AcceptedSocket, ClientConnection, ConnectionPlace } from "../../exchange/connection.ts";
import type { Exchange } from "../../exchange/exchange.ts";
import { maxWaitingBytes } from "../../exchange/http1-bounds.ts";
import { afterReading, endAndLinger, firstRequestMs } from "../http1-socket.ts";
import { CountedMessage } from "./counted-message.ts";
import type { NodeHttp1Owner } from "./node-http1-transport.ts";
import type { NodeResponse } from "./node-response.ts";
import { type FeedOwner, ParserFeed } from "./parser-feed.ts";
import type { UpgradeRequest } from "./upgrade-request.ts";

/** Bounds the memory of the queue; clients pipeline fewer. The last of them ends the connection. */
const maxPipelined = 100;

/** Memory of a string besides its bytes. */
const stringBytes = 32;

/** Some clients send an empty line after a body (RFC 9112, 2.2), which does not begin a head. */
const emptyLineBytes = 2;

/** A request, or a reply to bytes that are not a request. */
export type QueuedRequest =
  | { readonly req: IncomingMessage; readonly response: NodeResponse; readonly upgrade: UpgradeRequest | null }
  | { readonly req: null; readonly reply: LocalReply };

export interface NodeHttp1Options {
  readonly maxRequests: number;
  readonly idleTimeoutMs: number;
  readonly headTimeoutMs: number;
  /** True: every response from now on is the last on its connection. */
  readonly isDraining: () => boolean;
  /** Starts a request or sends a reply, while the connection has no other in progress. */
  readonly start: (connection: NodeHttp1Connection, queued: QueuedRequest) => void;
}

export class NodeHttp1Connection implements ClientConnection, NodeHttp1Owner, FeedOwner {
  readonly socket: Socket;
  readonly tcp: Socket;
  readonly peer: Peer;
  readonly scheme: "http" | "https";
  place: ConnectionPlace | null = null;
  /** The current exchange. */
  exchange: Exchange | null = null;
  /** The last response has begun: bytes that are received now are ignored. */
  isClosing = false;
  readonly #options: NodeHttp1Options;
  readonly #feed: ParserFeed;
  /** The last request that was parsed. */
  #parsed: IncomingMessage | null = null;
  #parsedBefore = 0;
  /** Bytes of a PROXY header, which the HTTP parser did not read. */
  readonly #headerBytes: number;
  #isBusy = false;
  #isFull = false;
  #requests = 0;
  #waiting: QueuedRequest[] = [];
  #waitingBytes = 0;
  /** `bytesRead` when the last request ended: if it has grown, a head has begun. */
  #bytesAtRest = 0;
  #endsWhenIdle = false;
  #unread: IncomingMessage | null = null;

  constructor({ socket, tcp, peer, headerBytes }: AcceptedSocket, options: NodeHttp1Options) {
    this.socket = socket;
    this.tcp = tcp;
    this.peer = peer;
    this.scheme = socket === tcp ? "http" : "https";
    this.#options = options;
    this.#headerBytes = headerBytes;
    this.#bytesAtRest = headerBytes;
    this.#feed = new ParserFeed(socket, this);
    socket.once("close", () => this.place?.leave());
    // Node calls this after the last response, and would close the socket at once.
    socket.destroySoon = () => {
      this.#unread?.removeAllListeners("data");
      this.#unread?.resume();
      endAndLinger(socket);
    };
  }

  get idleTimeoutMs(): number {
    return this.#options.idleTimeoutMs;
  }

  /** The first line of the connection has not ended within the bytes that a head may have. */
  get isFirstLine(): boolean {
    return this.#feed.isFirstLine;
  }

  /** Bytes of HTTP. */
  get receivedBytes(): number {
    return this.socket.bytesRead - this.#headerBytes;
  }

  get activeCount(): number {
    return this.exchange === null ? 0 : 1;
  }

  /** No request that is received now will be answered. */
  get isOver(): boolean {
    return this.isClosing || this.#isFull;
  }

  /** No request is in progress. */
  get isIdle(): boolean {
    return !this.#isBusy;
  }

  /** The connection has had its maximum of requests, more were pipelined than are kept, or the gateway drains. */
  get isLastRequest(): boolean {
    const { maxRequests, isDraining } = this.#options;
    return this.#requests >= maxRequests || (this.#isFull && this.#waiting.length === 0) || isDraining();
  }

  /** The last response has begun, and the body of its request is complete or not needed. */
  get isDone(): boolean {
    return this.socket.writableEnded || (this.isClosing && this.#unread?.complete !== false) || this.#isFull;
  }

  get parsedCount(): number {
    return this.#parsedBefore + (this.#parsed instanceof CountedMessage ? this.#parsed.pieces : 0);
  }

  get leftBytes(): number {
    return this.#parsed instanceof CountedMessage ? this.#parsed.leftBytes : 0;
  }

  /** Returns false while enough requests wait, or while nobody reads the body that is being parsed. */
  mayParse(): boolean {
    // The other half is for bytes that have not been parsed.
    if (this.#waitingBytes >= maxWaitingBytes / 2) return false;
    const body = this.#parsed;
    if (body === null || body.complete) return true;
    if (body.readableFlowing !== true) {
      if (body.listenerCount("resume", this.#feed.goOn) === 0) body.once("resume", this.#feed.goOn);
      return false;
    }
    // Node emits the buffered bytes in the next tick.
    if (body.readableLength > 0) this.#feed.goOn();
    return body.readableLength === 0;
  }

  /** Stops parsing. Returns the bytes that have not been parsed. */
  stopParsing(): Buffer {
    return this.#feed.release();
  }

  /** Starts it now, or after all before it (RFC 9112, 9.3.2), or drops it if too many wait. */
  enqueue(queued: QueuedRequest): void {
    this.#parsedBefore = this.parsedCount + 1;
    this.#parsed = queued.req;
    if (!this.#isBusy) {
      this.#isBusy = true;
      this.#start(queued);
    } else if (!this.#isFull && this.#waiting.length < maxPipelined) {
      this.#waiting.push(queued);
      this.#waitingBytes += weight(queued);
    } else {
      this.#isFull = true;
      // Node keeps the message until the connection ends.
      if (queued.req !== null) queued.req.rawHeaders.length = 0;
    }
  }

  /** Replies to bytes that are not a request. If they are in the body of the last waiting request, replaces that. */
  enqueueReply(reply: LocalReply): void {
    const last = this.#waiting.at(-1);
    if (last !== undefined && last.req?.complete === false) {
      this.#waiting.pop();
      this.#waitingBytes -= weight(last);
    }
    this.enqueue({ req: null, reply });
  }

  /** Starts the next request, unless the connection is closing. */
  endRequest(): void {
    this.exchange = null;
    this.#feed.goOn();
    if (this.isClosing || !this.socket.writable) this.#waiting = [];
    const next = this.#waiting.shift();
    if (next !== undefined) {
      this.#waitingBytes -= weight(next);
      this.#start(next);
    } else {
      this.#isBusy = false;
      this.#bytesAtRest = this.socket.bytesRead;
      this.place?.end();
      if (this.#endsWhenIdle && this.socket.writable) endAndLinger(this.socket);
    }
  }

  /** Waits for the current response, and for a head that has begun, as long as a head may take. */
  endWhenIdle(): void {
    this.#endsWhenIdle = true;
    // A client that has just connected is about to send a request, and would treat the close as a failure.
    if (this.receivedBytes === 0) this.#clearOnClose(afterReading(firstRequestMs, () => this.#endIdle()));
    else this.#endIdle();
  }

  endIdle(): void {
    this.socket.destroy();
  }

  /** Node's server has a timer for each socket. */
  endStalled(): void {}

  /** It remembers none. */
  forgetHead(): void {}

  abort(): void {
    this.exchange?.abort();
    this.socket.destroy();
  }

  reset(): void {
    this.tcp.resetAndDestroy();
  }

  endAfterResponse(unread: IncomingMessage | null): void {
    this.isClosing = true;
    this.#unread = unread;
  }

  #start(queued: QueuedRequest): void {
    this.#requests += 1;
    this.#options.start(this, queued);
  }

  #endIdle(): void {
    const { socket } = this;
    if (!this.isIdle || !socket.writable) return;
    if (socket.bytesRead - this.#bytesAtRest <= emptyLineBytes) {
      endAndLinger(socket);
      return;
    }
    // Longer than the timeout of a head, which gets a 408. A connection that is left then sends empty lines.
    const { headTimeoutMs } = this.#options;
    const end = (): unknown => this.isIdle && socket.writable && endAndLinger(socket);
    this.#clearOnClose(setTimeout(end, headTimeoutMs + 1_000));
  }

  #clearOnClose(timer: NodeJS.Timeout): void {
    this.socket.once("close", () => clearTimeout(timer));
  }
}

function weight({ req }: QueuedRequest): number {
  if (req === null) return 0;
  let bytes = (req.url ?? "").length + stringBytes;
  for (const text of req.rawHeaders) bytes += text.length + stringBytes;
  return bytes;
}
