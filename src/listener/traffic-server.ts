// The listener for traffic: what is accepted begins in the fast lane, or speaks HTTP/2, and goes on with Node's server
// where it is not simple; and how all of it comes to an end.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { type AddressInfo, Server as NetServer, type Socket } from "node:net";
import type { ExchangeRecord } from "../core/exchange-record.ts";
import type { ResponseFields } from "../core/fields.ts";
import { localReplies } from "../core/local-reply.ts";
import type { Decision } from "../core/policy.ts";
import type { RequestHead, Verdict } from "../core/request-head.ts";
import type { Exchange, ExchangeContext } from "../exchange/exchange.ts";
import { RawAnswers } from "../exchange/raw-answer.ts";
import { Http2Connection } from "../transport/http2/http2-connection.ts";
import { LazyMount } from "../transport/node/lazy-mount.ts";
import { Connection } from "../transport/node/node-http1-connection.ts";
import { NodeRequests } from "../transport/node/node-requests.ts";
import { createNodeServer } from "../transport/node/node-server.ts";
import { RawHttp1Connection, type RawHttp1Options } from "../transport/raw/raw-http1-connection.ts";
import { type Accepted, Acceptor, type AcceptorOptions } from "./acceptor.ts";
import { ConnectionLimiter, type ConnectionLimiterOptions } from "./connection-limiter.ts";
import { ConnectionTable } from "./connection-table.ts";

export interface TrafficServerOptions
  extends AcceptorOptions,
    Omit<ConnectionLimiterOptions, "connections" | "answers"> {
  readonly upstreamUrl: string;
  readonly keepAliveTimeoutMs: number;
  /** How long nothing may move in either direction while a request is answered. */
  readonly stallTimeoutMs: number;
  /** In lower case: what a connection may leave HTTP for. */
  readonly upgradeProtocols: ReadonlySet<string>;
  readonly fields: ResponseFields;
  readonly nowMs: () => number;
  readonly decide: (facts: RequestHead) => Verdict | Promise<Verdict>;
  /** A client's quota as it is now, without spending it. */
  readonly observe: (client: string) => Decision | Promise<Decision>;
  readonly requestId: (facts: RequestHead) => string;
  readonly forward: (active: Exchange) => void;
  readonly onEnd: (exchange: ExchangeRecord, path: string) => void;
  readonly onFailure: (error: unknown) => void;
}

/** How often connections are looked at that may have been idle for too long. */
const checkIntervalMs = 500;

export class TrafficServer {
  readonly #options: TrafficServerOptions;
  readonly #connections: ConnectionTable;
  readonly #context: ExchangeContext;
  readonly #rawAnswers: RawAnswers;
  readonly #requests: NodeRequests;
  readonly #intake: ConnectionLimiter;
  readonly #acceptor: Acceptor;
  readonly #laneOptions: RawHttp1Options;
  #parse: (socket: Socket) => void = () => {};
  #mount: LazyMount | null = null;
  #server: Server | null = null;
  #isEnding = false;
  #isDraining = false;
  #idleTimer: NodeJS.Timeout | undefined;

  constructor(options: TrafficServerOptions) {
    this.#options = options;
    this.#connections = new ConnectionTable(options.nowMs);
    const { fields, nowMs, observe, onEnd } = options;
    this.#context = { fields, nowMs, observe, onEnd, isDraining: () => this.#isEnding };
    this.#rawAnswers = new RawAnswers(options);
    this.#requests = new NodeRequests(options, {
      connections: this.#connections,
      context: this.#context,
      rawAnswers: this.#rawAnswers,
    });
    this.#intake = new ConnectionLimiter({
      ...options,
      connections: this.#connections,
      answers: options.tls === null ? this.#rawAnswers : null,
    });
    this.#acceptor = new Acceptor(options, this.#intake);
    this.#laneOptions = {
      ...options,
      keepAliveFields: keepAliveFields(options.keepAliveTimeoutMs),
      maxRequests: options.bounds.maxRequestsPerConnection,
      answerRaw: (lane, problem) => this.#rawAnswers.answer(lane, problem),
      leave: (lane, accepted, requests) => this.#onLeave(lane, accepted, requests),
    };
  }

  get connectionCount(): number {
    return this.#intake.count;
  }

  async listen(host: string, port: number): Promise<{ host: string; port: number }> {
    const server = this.#createServer();
    this.#server = server;
    // Node's own listen: Fastify's would open a second server for a second address of a name, past the connection
    // table.
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen({ host, port }, () => {
        server.off("error", reject);
        // Of a connection that the system could not accept. Without a listener it would end the process.
        server.on("error", this.#options.onFailure);
        resolve();
      });
    });
    this.#mount = new LazyMount(
      {
        upstreamUrl: this.#options.upstreamUrl,
        onRequest: (req) => this.#requests.onMounted(req),
        onFailure: (req, error) => this.#requests.onMountFailure(req, error),
      },
      server,
    );
    this.#idleTimer = setInterval(() => this.#connections.destroyIdle(), checkIntervalMs).unref();
    const address = server.address() as AddressInfo;
    return { host: address.address, port: address.port };
  }

  /** Every answer from now on says that its connection ends with it. New connections are still accepted. */
  announceEnd(): void {
    this.#isEnding = true;
  }

  /**
   * No new connections; answers from now on end theirs. Resolves when the last one is gone or the time is up, with the
   * number of requests that were broken off then.
   */
  async drain(timeoutMs: number): Promise<number> {
    this.#isEnding = true;
    this.#isDraining = true;
    this.#connections.endWhenIdle(this.#options.headTimeoutMs);
    this.#acceptor.endSilent();
    const server = this.#server;
    if (server === null) return 0;
    let brokenOff = 0;
    // Not the close of node:http: that one breaks off answers that are still being written, and stops timing heads.
    const closed = new Promise<void>((resolve) => void NetServer.prototype.close.call(server, () => resolve()));
    const timer = setTimeout(() => {
      brokenOff = this.#connections.activeCount;
      server.closeAllConnections();
      this.#acceptor.destroyAll();
      // Node has forgotten those that left HTTP.
      this.#connections.destroyAll();
      this.#intake.destroyLeaving();
    }, timeoutMs);
    await closed;
    clearTimeout(timer);
    clearInterval(this.#idleTimer);
    await this.#mount?.close();
    return brokenOff;
  }

  #createServer(): Server {
    const carry = (req: IncomingMessage, res: ServerResponse): void => this.#mount?.carry(req, res);
    const server = createNodeServer({
      ...this.#options,
      shouldUpgrade: (req) => this.#requests.shouldUpgrade(req),
      onRequest: (req, res) => this.#requests.onRequest(req, res, carry),
      onUpgrade: (req, head) => this.#requests.onUpgrade(req, head),
      onConnect: (req) => this.#requests.onConnect(req.socket),
      onClientError: (error, socket) => this.#requests.onClientError(error, socket),
    });
    this.#parse = this.#acceptor.acceptOn(server, {
      onHttp1: (accepted) => this.#onHttp1(accepted),
      onHttp2: (accepted) => this.#onHttp2(accepted),
      onPlainHttp: (accepted) => this.#rawAnswers.answer(new Connection(accepted), localReplies.plainHttp),
    });
    return server;
  }

  #onHttp1(accepted: Accepted): void {
    const lane = new RawHttp1Connection(accepted, this.#laneOptions, this.#context);
    this.#connections.add(lane);
    if (this.#isDraining) lane.endWhenIdle();
  }

  /** What comes is not simple any more: from now on Node reads it. */
  #onLeave(lane: RawHttp1Connection, accepted: Accepted, requests: number): void {
    this.#connections.remove(lane);
    this.#parse(accepted.socket);
    const { bounds, headTimeoutMs, keepAliveTimeoutMs } = this.#options;
    const connection = new Connection(accepted, {
      maxTurns: bounds.maxRequestsPerConnection - requests,
      // Node begins its time for an idle connection anew with every empty line, and has none for the lines: what has
      // had the time of both is not going to ask for anything.
      idleTimeoutMs: keepAliveTimeoutMs + headTimeoutMs,
    });
    this.#connections.add(connection);
    if (this.#isDraining) connection.endWhenIdle(headTimeoutMs);
  }

  #onHttp2(accepted: Accepted): void {
    const options = { ...this.#options, maxRequests: this.#options.bounds.maxRequestsPerConnection };
    const connection = new Http2Connection(accepted, options, this.#context);
    this.#connections.add(connection);
    if (this.#isDraining) connection.endWhenIdle();
  }
}

/** As Node's own answers say it. */
function keepAliveFields(timeoutMs: number): string[] {
  const seconds = Math.floor(timeoutMs / 1000);
  return ["Connection", "keep-alive", ...(seconds > 0 ? ["Keep-Alive", `timeout=${seconds}`] : [])];
}
