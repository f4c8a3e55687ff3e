// Node's HTTP server without its own responses, which would lack the headers that every response carries, and with
// bounds on what it reads. Its events (requests, upgrades, parse errors, slow heads) become exchanges.
import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";
import { peerUnder } from "../../core/client-address.ts";
import { errorCode } from "../../core/failure.ts";
import { maxFields, maxHeadBytes } from "../../core/head-bounds.ts";
import { type LocalReply, localReplies } from "../../core/local-reply.ts";
import { mayUpgrade } from "../../core/upgrade.ts";
import type { AcceptedSocket } from "../../exchange/connection.ts";
import { Exchange } from "../../exchange/exchange.ts";
import { acceptMinorVersions } from "../../exchange/minor-versions.ts";
import { createServer } from "../../exchange/node-http.ts";
import { Portions } from "../../exchange/portions.ts";
import { startOn } from "../../exchange/start-on.ts";
import { stopParsingWhen } from "../../exchange/stop-parsing.ts";
import { stopReading } from "../http1-socket.ts";
import { rejectOnSocket } from "../socket-transport.ts";
import type { TransportOptions } from "../transport-options.ts";
import { CountedMessage } from "./counted-message.ts";
import { NodeHttp1Connection, type QueuedRequest } from "./node-http1-connection.ts";
import { NodeHttp1Transport } from "./node-http1-transport.ts";
import { NodeResponse } from "./node-response.ts";
import { replyToParseError } from "./parse-error.ts";
import { UpgradeRequest } from "./upgrade-request.ts";

const lateCode = "ERR_HTTP_REQUEST_TIMEOUT";

interface LateHead {
  readonly error: Error;
  readonly socket: Socket;
}

export class NodeHttp1Server {
  readonly server: Server;
  readonly #options: TransportOptions;
  readonly #connections = new WeakMap<Socket, NodeHttp1Connection>();
  /** Connections whose request head took too long. */
  readonly #late = new Portions<LateHead>(({ error, socket }) => this.#refuse(error, socket));
  /** Node's own listeners, which read a socket. */
  readonly #readers: readonly ((socket: Socket) => void)[];

  constructor(options: TransportOptions) {
    this.#options = options;
    const { headTimeoutMs } = options.settings.current;
    this.server = createServer({
      IncomingMessage: CountedMessage as typeof IncomingMessage,
      ServerResponse: NodeResponse,
      maxHeaderSize: maxHeadBytes,
      // The minimum rate of a body is enforced where the body is read; a total timeout would break long uploads.
      requestTimeout: 0,
      connectionsCheckingInterval: Math.min(500, headTimeoutMs),
      // Otherwise Node would respond itself.
      requireHostHeader: false,
      noDelay: true,
      shouldUpgradeCallback: (req) => this.#shouldUpgrade(req),
    });
    this.server.maxHeadersCount = maxFields;
    const onRequest = (req: IncomingMessage, response: NodeResponse): void => this.#onRequest(req, response);
    this.server.on("request", onRequest).on("checkContinue", onRequest).on("checkExpectation", onRequest);
    this.server.on("upgrade", (req, _stream, head) => this.#onUpgrade(req, head));
    this.server.on("connect", (req) => this.#onConnect(req.socket));
    this.server.on("clientError", (error, stream) => this.#onClientError(error, stream as Socket));
    // The traffic listener handles accepted connections first.
    this.#readers = this.server.listeners("connection") as ((socket: Socket) => void)[];
    this.server.removeAllListeners("connection");
  }

  /** Takes a socket over; `requests` have been answered on it. */
  adopt(accepted: AcceptedSocket, requests: number): NodeHttp1Connection {
    const { settings, isDraining } = this.#options;
    const { headTimeoutMs, keepAliveTimeoutMs, stallTimeoutMs, bounds } = settings.current;
    this.server.headersTimeout = headTimeoutMs;
    this.server.keepAliveTimeout = keepAliveTimeoutMs;
    // Otherwise a client that stops reading would hold its upstream connection forever.
    this.server.timeout = stallTimeoutMs;
    for (const read of this.#readers) read.call(this.server, accepted.socket);
    acceptMinorVersions(this.server, accepted.socket);
    const connection = new NodeHttp1Connection(accepted, {
      maxRequests: bounds.maxRequestsPerConnection - requests,
      // Node restarts its idle timeout with every empty line, and has no timeout for such lines. This one covers both.
      idleTimeoutMs: keepAliveTimeoutMs + headTimeoutMs,
      headTimeoutMs,
      isDraining,
      start: this.#start,
    });
    this.#connections.set(accepted.socket, connection);
    stopParsingWhen(accepted.socket, () => connection.isOver);
    return connection;
  }

  #onRequest(req: IncomingMessage, response: NodeResponse): void {
    const connection = this.#connections.get(req.socket);
    // The request came after a last response, or its socket is closed.
    if (connection === undefined || connection.isClosing) return;
    connection.enqueue({ req, response, upgrade: null });
  }

  /** Accepts no upgrade during a response: Node releases the socket, which breaks a response that is being written. */
  #shouldUpgrade(req: IncomingMessage): boolean {
    const connection = this.#connections.get(req.socket);
    if (connection === undefined || !connection.isIdle || connection.isClosing) return false;
    const { rawHeaders, method = "", httpVersion } = req;
    return mayUpgrade({ rawHeaders, method, httpVersion }, this.#options.settings.current.upgradeProtocols);
  }

  #onUpgrade(req: IncomingMessage, head: Buffer): void {
    const connection = this.#connections.get(req.socket);
    if (connection === undefined) {
      req.socket.destroy();
      return;
    }
    const upgrade = new UpgradeRequest(req, connection, Buffer.concat([head, connection.stopParsing()]));
    connection.enqueue({ req, response: upgrade.response, upgrade });
  }

  readonly #start = (connection: NodeHttp1Connection, queued: QueuedRequest): void => {
    if (queued.req === null) {
      this.#reply(connection, queued.reply);
      return;
    }
    const { req, response, upgrade } = queued;
    const { runtime, settings } = this.#options;
    const transport = new NodeHttp1Transport(req, response, connection, upgrade);
    const { rawHeaders, method = "", url: target = "", httpVersion } = req;
    const peer = peerUnder(settings.current.clientAddress, connection.peer);
    const head = { peer, rawHeaders, method, target, httpVersion };
    const exchange = new Exchange(head, transport, runtime);
    transport.exchange = exchange;
    connection.exchange = exchange;
    startOn(connection.place, exchange);
  };

  /** Sends the last response on a connection, unless it has been sent. */
  #reply(connection: NodeHttp1Connection, reply: LocalReply): void {
    const { socket } = connection;
    const { runtime, settings } = this.#options;
    if (connection.isClosing) {
      socket.destroy();
      return;
    }
    connection.isClosing = true;
    const peer = peerUnder(settings.current.clientAddress, connection.peer);
    const exchange = rejectOnSocket(socket, peer, reply, runtime);
    connection.exchange = exchange?.isEnded === false ? exchange : null;
  }

  #onClientError(error: Error, socket: Socket): void {
    const connection = this.#connections.get(socket);
    // Node checks all connections at once, so thousands of heads can be late in one turn.
    if (errorCode(error) === lateCode && connection?.isIdle === true && !socket.destroyed) {
      stopReading(socket);
      this.#late.add({ error, socket });
    } else {
      this.#refuse(error, socket);
    }
  }

  #refuse(error: Error, socket: Socket): void {
    const connection = this.#connections.get(socket);
    const reply = connection === undefined ? null : replyToParseError(error, connection);
    connection?.stopParsing();
    if (connection === undefined || reply === null) {
      socket.destroy();
      return;
    }
    const { exchange } = connection;
    // The error is in the body of the current request, which cannot be forwarded any further.
    if (exchange?.hasBody && "complete" in exchange.body && !exchange.body.complete) exchange.cancel(reply);
    // The error is in a later request. After a last response it is ignored, because a reset could overtake that.
    else if (!connection.isClosing && socket.writable) connection.enqueueReply(reply);
  }

  /** Refuses a CONNECT. Node releases the socket, which breaks a response that is still being written. */
  #onConnect(socket: Socket): void {
    const connection = this.#connections.get(socket);
    connection?.stopParsing();
    if (connection?.isIdle) this.#reply(connection, localReplies.unsupportedMethod);
    else socket.destroy();
  }
}
