// One client connection past Node's HTTP server, for as long as it brings simple requests, one after the other: reading
// and answering them costs a fraction there. The first packet that is anything else is handed off to Node's parser as
// it came, and with it the connection for good.
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { Peer } from "../../core/client-address.ts";
import type { HeaderList } from "../../core/header-list.ts";
import type { AcceptedSocket, ClientConnection } from "../../exchange/connection.ts";
import { Exchange, type RuntimeRef } from "../../exchange/exchange.ts";
import { endAndLinger, firstRequestMs, ignoreReset, maxWaitingBytes } from "../http1-socket.ts";
import { type RawHttp1Owner, RawHttp1Transport } from "./raw-http1-transport.ts";
import { readSimpleRequest } from "./simple-request.ts";

export interface RawHttp1Options {
  readonly runtime: RuntimeRef;
  readonly nowMs: () => number;
  readonly headTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  /** At the end of each head that is not the last one. */
  readonly keepAliveHeaders: HeaderList;
  /** How long nothing may move in either direction while a request is answered. */
  readonly stallTimeoutMs: number;
  readonly maxRequests: number;
  /** True: every response from now on is the last on its connection. */
  readonly isDraining: () => boolean;
  /** Takes the socket over, as if nothing of what it holds had been read; `requests` have been answered on it. */
  readonly handOff: (connection: RawHttp1Connection, accepted: AcceptedSocket, requests: number) => void;
}

/** Clients are told of a second less, so that their next request does not meet the close. */
const keepAliveGraceMs = 1_000;

export class RawHttp1Connection implements ClientConnection, RawHttp1Owner {
  readonly socket: Socket;
  readonly tcp: Socket;
  readonly peer: Peer;
  readonly scheme: "http" | "https";
  readonly keepAliveHeaders: HeaderList;
  onIdleChange: (isIdle: boolean) => void = () => {};
  isClosing = false;
  readonly #options: RawHttp1Options;
  readonly #transport: RawHttp1Transport;
  #requests = 0;
  #asksToClose = false;
  #endsWhenIdle = false;
  /** What came while a request was being answered. */
  #next: Buffer[] = [];
  #nextBytes = 0;
  #firstRequestTimer: NodeJS.Timeout | null = null;

  constructor({ socket, tcp, peer }: AcceptedSocket, options: RawHttp1Options) {
    this.socket = socket;
    this.tcp = tcp;
    this.peer = peer;
    this.scheme = socket instanceof TLSSocket ? "https" : "http";
    this.keepAliveHeaders = options.keepAliveHeaders;
    this.#options = options;
    this.#transport = new RawHttp1Transport(this);
    socket.setTimeout(options.stallTimeoutMs);
    socket.on("timeout", this.#onStall).on("drain", this.#onDrain);
    socket.on("data", this.#onData).on("end", this.#onEnd).on("error", ignoreReset).on("close", this.#onClose);
  }

  get activeCount(): number {
    return this.#isBusy ? 1 : 0;
  }

  get idleTimeoutMs(): number {
    const { headTimeoutMs, keepAliveTimeoutMs } = this.#options;
    return this.#requests === 0 ? headTimeoutMs : keepAliveTimeoutMs + keepAliveGraceMs;
  }

  get isLastRequest(): boolean {
    const { maxRequests, isDraining } = this.#options;
    return this.#asksToClose || this.#requests >= maxRequests || isDraining();
  }

  endRequest(): void {
    this.onIdleChange(true);
    if (this.isClosing) this.#end();
    else if (this.#nextBytes > 0) this.#handOff(Buffer.concat(this.#next));
    else if (this.#endsWhenIdle) this.#end();
  }

  endWhenIdle(): void {
    this.#endsWhenIdle = true;
    if (this.#isBusy) return;
    // A client that has just connected is about to send a request, and would take the end for a failure.
    if (this.#requests > 0) this.#end();
    else this.#firstRequestTimer = setTimeout(() => this.#isBusy || this.#end(), firstRequestMs);
  }

  abort(): void {
    this.socket.destroy();
    this.#transport.exchange?.abort();
  }

  /** A request is being decided or answered. */
  get #isBusy(): boolean {
    return this.#transport.exchange !== null;
  }

  #end(): void {
    this.isClosing = true;
    endAndLinger(this.socket);
  }

  #begin(packet: Buffer): void {
    const request = readSimpleRequest(packet);
    if (request === null) {
      this.#handOff(packet);
      return;
    }
    const { rawHeaders, method, target, body, isLast } = request;
    const { runtime, nowMs } = this.#options;
    const head = { peer: this.peer, rawHeaders, method, target, httpVersion: "1.1", nowMs: nowMs() };
    const exchange = new Exchange(head, this.#transport, runtime);
    this.#requests += 1;
    this.#asksToClose = isLast;
    this.#transport.begin(exchange, body);
    this.onIdleChange(false);
    exchange.start();
  }

  #handOff(packet: Buffer): void {
    const { socket, tcp, peer } = this;
    this.#releaseSocket();
    // So that nothing flows while nobody listens.
    socket.pause();
    socket.unshift(packet);
    const accepted = { socket, tcp, peer, headerBytes: socket.bytesRead - packet.length };
    this.#options.handOff(this, accepted, this.#requests);
    socket.resume();
  }

  #releaseSocket(): void {
    const { socket } = this;
    if (this.#firstRequestTimer !== null) clearTimeout(this.#firstRequestTimer);
    socket.setTimeout(0);
    socket.off("timeout", this.#onStall).off("drain", this.#onDrain);
    socket.off("data", this.#onData).off("end", this.#onEnd).off("error", ignoreReset).off("close", this.#onClose);
  }

  readonly #onData = (bytes: Buffer): void => {
    // Behind a last response they belong to nothing.
    if (this.isClosing) return;
    if (!this.#isBusy) {
      // Empty lines, which some clients send behind a body (RFC 9112, 2.2), do not begin a head that is timed.
      if (this.#requests === 0 || !isEmptyLines(bytes)) this.#begin(bytes);
      return;
    }
    this.#next.push(bytes);
    this.#nextBytes += bytes.length;
    if (this.#nextBytes >= maxWaitingBytes) this.socket.pause();
  };

  /** As everywhere: a client that closes its sending side before the response counts as gone. */
  readonly #onEnd = (): void => {
    if (this.#isBusy) this.socket.destroy();
    else if (!this.isClosing) this.socket.end();
  };

  readonly #onDrain = (): void => this.#transport.exchange?.onDrain();

  readonly #onStall = (): void => {
    if (this.#isBusy) this.socket.destroy();
  };

  readonly #onClose = (): void => {
    if (this.#firstRequestTimer !== null) clearTimeout(this.#firstRequestTimer);
    const { exchange } = this.#transport;
    this.#transport.exchange = null;
    exchange?.clientGone();
  };
}

function isEmptyLines(bytes: Buffer): boolean {
  return bytes[0] === 0x0d && /^(?:\r\n)+$/.test(bytes.toString("latin1"));
}
