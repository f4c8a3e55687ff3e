// One client connection that Node's parser reads: which request is under way, which ones wait, and how it ends.
// Pipelined requests wait for each other, because Node hands them out all at once and RFC 9112, 9.3.2 allows that only
// for safe methods.
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { Peer } from "../../core/client-address.ts";
import type { LocalReply } from "../../core/local-reply.ts";
import type { AcceptedSocket, ClientConnection } from "../../exchange/connection.ts";
import type { Exchange } from "../../exchange/exchange.ts";
import { endAndLinger, firstRequestMs, maxWaitingBytes, readOn, stopReading } from "../http1-socket.ts";
import type { NodeHttp1Owner } from "./node-http1-transport.ts";
import type { NodeResponse } from "./node-response.ts";
import type { UpgradeRequest } from "./upgrade-request.ts";

/** More than any client has use for; what waits is kept in memory. The last of them ends the connection. */
const maxPipelined = 100;

/** What one read hands out beyond this is not kept. Only heads of very many very short headers get there. */
const maxKeptBytes = 4 * maxWaitingBytes;

/** What a string of a head takes in memory besides its bytes. */
const stringBytes = 32;

/** An empty line, which some clients send behind a body (RFC 9112, 2.2): not the beginning of a head. */
const emptyLineBytes = 2;

/** A request in the order of its connection, or a reply to bytes that are no request. */
export type QueuedRequest =
  | { readonly req: IncomingMessage; readonly response: NodeResponse; readonly upgrade: UpgradeRequest | null }
  | { readonly req: null; readonly reply: LocalReply };

export interface NodeHttp1Options {
  readonly maxRequests: number;
  readonly idleTimeoutMs: number;
  /** How long a head may take. */
  readonly headTimeoutMs: number;
  /** True: every response from now on is the last on its connection. */
  readonly isDraining: () => boolean;
  /** Begins a request, or sends a reply; nothing else of the connection is under way. */
  readonly start: (connection: NodeHttp1Connection, queued: QueuedRequest) => void;
}

export class NodeHttp1Connection implements ClientConnection, NodeHttp1Owner {
  readonly socket: Socket;
  readonly tcp: Socket;
  readonly peer: Peer;
  readonly scheme: "http" | "https";
  onIdleChange: (isIdle: boolean) => void = () => {};
  /** The request under way. */
  exchange: Exchange | null = null;
  /** A last response is on its way: whatever else arrives is not a request any more. */
  isClosing = false;
  readonly #options: NodeHttp1Options;
  /** Bytes of a PROXY header, which the HTTP parser never saw. */
  readonly #headerBytes: number;
  #isBusy = false;
  #isFull = false;
  #requests = 0;
  #waiting: QueuedRequest[] = [];
  #waitingBytes = 0;
  /** Bytes read when the last request ended: if there are more now, a head is on its way. */
  #bytesAtRest = 0;
  #endsWhenIdle = false;
  #unread: IncomingMessage | null = null;

  constructor({ socket, tcp, peer, headerBytes }: AcceptedSocket, options: NodeHttp1Options) {
    this.socket = socket;
    this.tcp = tcp;
    this.peer = peer;
    this.scheme = socket instanceof TLSSocket ? "https" : "http";
    this.#options = options;
    this.#headerBytes = headerBytes;
    this.#bytesAtRest = headerBytes;
    // Node calls this when a last response is written, and would close the socket at once.
    socket.destroySoon = () => {
      this.#unread?.removeAllListeners("data");
      this.#unread?.resume();
      endAndLinger(socket);
    };
  }

  get idleTimeoutMs(): number {
    return this.#options.idleTimeoutMs;
  }

  /** Bytes of HTTP. */
  get receivedBytes(): number {
    return this.socket.bytesRead - this.#headerBytes;
  }

  get activeCount(): number {
    return this.exchange === null ? 0 : 1;
  }

  /** Between two requests, or before the first. */
  get isIdle(): boolean {
    return !this.#isBusy;
  }

  /** It has had as many requests as one connection may, or more was pipelined than is kept. */
  get isLastRequest(): boolean {
    const { maxRequests, isDraining } = this.#options;
    return this.#requests >= maxRequests || (this.#isFull && this.#waiting.length === 0) || isDraining();
  }

  /** Starts it now, or when everything before it has been answered, or never if too many wait (RFC 9112, 9.3.2). */
  enqueue(queued: QueuedRequest): void {
    if (!this.#isBusy) {
      this.#isBusy = true;
      this.onIdleChange(false);
      this.#start(queued);
    } else if (!this.#isFull && this.#waiting.length < maxPipelined && this.#waitingBytes < maxKeptBytes) {
      this.#waiting.push(queued);
      this.#waitingBytes += weight(queued);
      if (this.#waitingBytes >= maxWaitingBytes) stopReading(this.socket);
    } else {
      this.#isFull = true;
      // Node keeps the message until the connection ends.
      if (queued.req !== null) queued.req.rawHeaders.length = 0;
      stopReading(this.socket);
    }
  }

  /** Replies to bytes that are no request, in place of the last request that waits if they are in its body. */
  enqueueReply(reply: LocalReply): void {
    const last = this.#waiting.at(-1);
    if (last !== undefined && last.req?.complete === false) {
      this.#waiting.pop();
      this.#waitingBytes -= weight(last);
    }
    this.enqueue({ req: null, reply });
  }

  /** Starts the next request, unless the response before was the last. */
  endRequest(): void {
    this.exchange = null;
    if (this.isClosing || !this.socket.writable) this.#waiting = [];
    const next = this.#waiting.shift();
    if (next !== undefined) {
      this.#readOnAfter(next);
      this.#start(next);
    } else {
      this.#isBusy = false;
      this.#bytesAtRest = this.socket.bytesRead;
      this.onIdleChange(true);
      if (this.#endsWhenIdle && this.socket.writable) endAndLinger(this.socket);
    }
  }

  /** A head that has begun is waited for, as long as one may take; so is a response that promised to stay. */
  endWhenIdle(): void {
    this.#endsWhenIdle = true;
    // A client that has just connected is about to send a request, and would take the end for a failure.
    if (this.receivedBytes === 0) this.#after(firstRequestMs, () => this.#endIdle());
    else this.#endIdle();
  }

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

  /** Before `next` starts: it may have a body that is still to come. */
  #readOnAfter(next: QueuedRequest): void {
    const wasHeld = this.#waitingBytes >= maxWaitingBytes;
    this.#waitingBytes -= weight(next);
    if (this.#isFull || !wasHeld || this.#waitingBytes >= maxWaitingBytes) return;
    readOn(this.socket);
    this.socket.resume();
  }

  #endIdle(): void {
    const { socket } = this;
    if (!this.isIdle || !socket.writable) return;
    if (socket.bytesRead - this.#bytesAtRest <= emptyLineBytes) {
      endAndLinger(socket);
      return;
    }
    // Longer than it takes to notice a slow head, which is answered. What is left then sends empty lines.
    const { headTimeoutMs } = this.#options;
    this.#after(headTimeoutMs + 1_000, () => this.isIdle && socket.writable && endAndLinger(socket));
  }

  #after(delayMs: number, act: () => void): void {
    const timer = setTimeout(act, delayMs);
    this.socket.once("close", () => clearTimeout(timer));
  }
}

function weight({ req }: QueuedRequest): number {
  if (req === null) return 0;
  let bytes = (req.url ?? "").length + stringBytes;
  for (const text of req.rawHeaders) bytes += text.length + stringBytes;
  return bytes;
}
