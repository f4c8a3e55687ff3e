// One client connection of HTTP/1 without Node's HTTP server, which would cost several times as much, for as long as it
// sends simple requests one after the other. The first packet that is anything else is handed off unchanged to Node's
// parser, together with the connection.
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { type Peer, peerUnder } from "../../core/client-address.ts";
import { ignoreError } from "../../core/failure.ts";
import type { HeaderList } from "../../core/header-list.ts";
import type { TrafficSettings } from "../../core/traffic-settings.ts";
import type { AcceptedSocket, ClientConnection } from "../../exchange/connection.ts";
import { Exchange } from "../../exchange/exchange.ts";
import { JoinedPieces } from "../../exchange/joined-pieces.ts";
import { endAndLinger, firstRequestMs, maxWaitingBytes } from "../http1-socket.ts";
import type { TransportOptions } from "../transport-options.ts";
import { type RawHttp1Owner, RawHttp1Transport } from "./raw-http1-transport.ts";
import { readSimpleRequest } from "./simple-request.ts";

export interface RawHttp1Options extends TransportOptions {
  /** The settings that were current when the connection was accepted. */
  readonly accepted: TrafficSettings;
  /** Sent with each response that is not the last one. */
  readonly keepAliveHeaders: HeaderList;
  /** Takes the socket over with all unhandled bytes in it; `requests` have been answered on it. */
  readonly handOff: (connection: RawHttp1Connection, accepted: AcceptedSocket, requests: number) => void;
}

/** The announced timeout is shorter by this, so that no request is sent while the connection is closed. */
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
  /** Bytes that were received during a request. */
  readonly #next = new JoinedPieces();
  #firstRequestTimer: NodeJS.Timeout | null = null;

  constructor({ socket, tcp, peer }: AcceptedSocket, options: RawHttp1Options) {
    this.socket = socket;
    this.tcp = tcp;
    this.peer = peer;
    this.scheme = socket instanceof TLSSocket ? "https" : "http";
    this.keepAliveHeaders = options.keepAliveHeaders;
    this.#options = options;
    this.#transport = new RawHttp1Transport(this);
    socket.setTimeout(options.accepted.stallTimeoutMs);
    socket.on("timeout", this.#onStall).on("drain", this.#onDrain);
    socket.on("data", this.#onData).on("end", this.#onEnd).on("error", ignoreError).on("close", this.#onClose);
  }

  get activeCount(): number {
    return this.#isBusy ? 1 : 0;
  }

  get idleTimeoutMs(): number {
    const { headTimeoutMs, keepAliveTimeoutMs } = this.#options.accepted;
    return this.#requests === 0 ? headTimeoutMs : keepAliveTimeoutMs + keepAliveGraceMs;
  }

  get isLastRequest(): boolean {
    const { accepted, isDraining } = this.#options;
    return this.#asksToClose || this.#requests >= accepted.bounds.maxRequestsPerConnection || isDraining();
  }

  endRequest(): void {
    this.onIdleChange(true);
    if (this.isClosing) this.#end();
    else if (this.#next.length > 0) this.#handOff(this.#next.take());
    else if (this.#endsWhenIdle) this.#end();
  }

  endWhenIdle(): void {
    this.#endsWhenIdle = true;
    if (this.#isBusy) return;
    // A client that has just connected is about to send a request, and would treat the close as a failure.
    if (this.#requests > 0) this.#end();
    else this.#firstRequestTimer = setTimeout(() => this.#isBusy || this.#end(), firstRequestMs);
  }

  abort(): void {
    this.socket.destroy();
    this.#transport.exchange?.abort();
  }

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
    const { runtime, settings } = this.#options;
    const peer = peerUnder(settings.current.clientAddress, this.peer);
    const head = { peer, rawHeaders, method, target, httpVersion: "1.1", nowMs: runtime.current.nowMs() };
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
    // Without a listener, flowing data would be lost.
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
    socket.off("data", this.#onData).off("end", this.#onEnd).off("error", ignoreError).off("close", this.#onClose);
  }

  readonly #onData = (bytes: Buffer): void => {
    // Bytes after a last response are ignored.
    if (this.isClosing) return;
    if (!this.#isBusy) {
      // Some clients send empty lines after a body (RFC 9112, 2.2), which must not start the timeout of a head.
      if (this.#requests === 0 || !isEmptyLines(bytes)) this.#begin(bytes);
      return;
    }
    this.#next.add(bytes);
    if (this.#next.length >= maxWaitingBytes) this.socket.pause();
  };

  /** As in all transports, a client that closes its sending side before the response has left. */
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
