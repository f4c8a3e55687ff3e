// Node's HTTP server, set so that it answers nothing by itself and bounds what it reads: what it would say would lack
// the fields. What it reports (requests, upgrades, bytes it cannot parse, heads that take too long) becomes exchanges.
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { Socket } from "node:net";
import { maxFields, maxHeadBytes } from "../../core/head-bounds.ts";
import { type LocalReply, localReplies } from "../../core/local-reply.ts";
import { mayUpgrade } from "../../core/upgrade.ts";
import type { AcceptedSocket } from "../../exchange/connection.ts";
import { Exchange, type RuntimeRef } from "../../exchange/exchange.ts";
import { rejectOnSocket } from "../socket-transport.ts";
import { NodeHttp1Connection, type QueuedRequest } from "./node-http1-connection.ts";
import { NodeHttp1Transport } from "./node-http1-transport.ts";
import { NodeResponse } from "./node-response.ts";
import { replyToParseError } from "./parse-error.ts";
import { UpgradeRequest } from "./upgrade-request.ts";

export interface NodeHttp1ServerOptions {
  readonly runtime: RuntimeRef;
  readonly nowMs: () => number;
  readonly headTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  /** How long nothing may move in either direction while a request is answered. */
  readonly stallTimeoutMs: number;
  readonly maxRequests: number;
  /** In lower case: what a connection may leave HTTP for. */
  readonly upgradeProtocols: ReadonlySet<string>;
  readonly isDraining: () => boolean;
}

export class NodeHttp1Server {
  readonly server: Server;
  readonly #options: NodeHttp1ServerOptions;
  readonly #connections = new WeakMap<Socket, NodeHttp1Connection>();
  /** Node's own, which read a socket. */
  readonly #readers: readonly ((socket: Socket) => void)[];

  constructor(options: NodeHttp1ServerOptions) {
    this.#options = options;
    this.server = createServer({
      ServerResponse: NodeResponse,
      maxHeaderSize: maxHeadBytes,
      headersTimeout: options.headTimeoutMs,
      // The body's time is kept where the body is read: one total time would cut long uploads.
      requestTimeout: 0,
      keepAliveTimeout: options.keepAliveTimeoutMs,
      connectionsCheckingInterval: Math.min(500, options.headTimeoutMs),
      // Node would answer these by itself, without the fields.
      requireHostHeader: false,
      noDelay: true,
      shouldUpgradeCallback: (req) => this.#shouldUpgrade(req),
    });
    this.server.maxHeadersCount = maxFields;
    // A client that stops reading would hold its upstream connection for ever.
    this.server.timeout = options.stallTimeoutMs;
    const onRequest = (req: IncomingMessage, response: NodeResponse): void => this.#onRequest(req, response);
    this.server.on("request", onRequest).on("checkContinue", onRequest).on("checkExpectation", onRequest);
    this.server.on("upgrade", (req, _stream, head) => this.#onUpgrade(req, head));
    this.server.on("connect", (req) => this.#onConnect(req.socket));
    this.server.on("clientError", (error, stream) => this.#onClientError(error, stream as Socket));
    // What the server accepts is for the listener to look at first.
    this.#readers = this.server.listeners("connection") as ((socket: Socket) => void)[];
    this.server.removeAllListeners("connection");
  }

  /** Reads requests from a socket from now on; `requests` have been answered on it. */
  adopt(accepted: AcceptedSocket, requests: number): NodeHttp1Connection {
    const { maxRequests, headTimeoutMs, keepAliveTimeoutMs, isDraining } = this.#options;
    for (const read of this.#readers) read.call(this.server, accepted.socket);
    const connection = new NodeHttp1Connection(accepted, {
      maxRequests: maxRequests - requests,
      // Node begins its time for an idle connection anew with every empty line, and has none for the lines: what has
      // had the time of both is not going to ask for anything.
      idleTimeoutMs: keepAliveTimeoutMs + headTimeoutMs,
      headTimeoutMs,
      isDraining,
      start: this.#start,
    });
    this.#connections.set(accepted.socket, connection);
    return connection;
  }

  #onRequest(req: IncomingMessage, response: NodeResponse): void {
    const connection = this.#connections.get(req.socket);
    // Bytes after a last response, and requests of a socket that is gone already.
    if (connection === undefined || connection.isClosing) return;
    connection.enqueue({ req, response, upgrade: null });
  }

  /**
   * Node takes the socket out of its own hands then, which a response that is still being written would not survive.
   */
  #shouldUpgrade(req: IncomingMessage): boolean {
    const connection = this.#connections.get(req.socket);
    if (connection === undefined || !connection.isIdle || connection.isClosing) return false;
    const { rawHeaders, method = "", httpVersion } = req;
    return mayUpgrade({ rawHeaders, method, httpVersion }, this.#options.upgradeProtocols);
  }

  #onUpgrade(req: IncomingMessage, head: Buffer): void {
    const connection = this.#connections.get(req.socket);
    if (connection === undefined) {
      req.socket.destroy();
      return;
    }
    const upgrade = new UpgradeRequest(req, connection, head);
    connection.enqueue({ req, response: upgrade.response, upgrade });
  }

  readonly #start = (connection: NodeHttp1Connection, queued: QueuedRequest): void => {
    if (queued.req === null) {
      this.#reply(connection, queued.reply);
      return;
    }
    const { req, response, upgrade } = queued;
    const transport = new NodeHttp1Transport(req, response, connection, upgrade);
    const { rawHeaders, method = "", url: target = "", httpVersion } = req;
    const head = { peer: connection.peer, rawHeaders, method, target, httpVersion, nowMs: this.#options.nowMs() };
    const exchange = new Exchange(head, transport, this.#options.runtime);
    transport.exchange = exchange;
    connection.exchange = exchange;
    exchange.start();
  };

  /** The last response on this connection, unless it has had that already. */
  #reply(connection: NodeHttp1Connection, reply: LocalReply): void {
    const { socket, peer } = connection;
    if (connection.isClosing) {
      socket.destroy();
      return;
    }
    connection.isClosing = true;
    const exchange = rejectOnSocket(socket, peer, reply, this.#options.runtime);
    connection.exchange = exchange?.isEnded === false ? exchange : null;
  }

  #onClientError(error: Error, socket: Socket): void {
    const connection = this.#connections.get(socket);
    const reply = replyToParseError(error, connection?.receivedBytes ?? 0);
    if (connection === undefined || reply === null) {
      socket.destroy();
      return;
    }
    const { exchange } = connection;
    // The error is in this request's body: if that is on its way, it cannot be carried any further.
    if (exchange?.hasBody && "complete" in exchange.body && !exchange.body.complete) exchange.cancel(reply);
    // It is in what came after what is being answered. Behind a last response it is nobody's concern: a reset could
    // overtake it.
    else if (!connection.isClosing && socket.writable) connection.enqueueReply(reply);
  }

  /** CONNECT takes the socket out of Node's hands, which a response that is still being written does not survive. */
  #onConnect(socket: Socket): void {
    const connection = this.#connections.get(socket);
    if (connection?.isIdle) this.#reply(connection, localReplies.unsupportedMethod);
    else socket.destroy();
  }
}
