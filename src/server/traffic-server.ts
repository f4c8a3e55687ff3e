// The listener for traffic. Turns what Node's HTTP server reports (requests, bytes it cannot parse, heads that take too
// long) into decisions and answers. Nothing leaves without having been decided, and what Node would answer by itself is
// answered here.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { type AddressInfo, Server as NetServer, type Socket } from "node:net";
import type { FastifyInstance } from "fastify";
import type { RequestFacts, Verdict } from "../core/decide.ts";
import { type Exchange, newExchange } from "../core/exchange.ts";
import type { ResponseFields } from "../core/fields.ts";
import type { Decision } from "../core/policy.ts";
import { type Problem, problems } from "../core/problem.ts";
import { mayUpgrade } from "../core/upgrade.ts";
import { type Accepted, Acceptor, type AcceptorOptions } from "./acceptor.ts";
import type { ActiveRequest, ActiveRequestContext } from "./active-request.ts";
import { Connection } from "./connection.ts";
import { ConnectionTable } from "./connection-table.ts";
import { Http1Request } from "./http1-request.ts";
import { Http2Connection } from "./http2-connection.ts";
import { Intake, type IntakeOptions } from "./intake.ts";
import { createMount, presentToMount, type RequestHandler } from "./mount.ts";
import { createNodeServer } from "./node-server.ts";
import { problemOfParseError, RawAnswers } from "./raw-answer.ts";
import { UpgradeRequest } from "./upgrade-request.ts";

export interface TrafficServerOptions extends AcceptorOptions, Omit<IntakeOptions, "connections" | "answers"> {
  readonly upstreamUrl: string;
  readonly keepAliveTimeoutMs: number;
  /** How long nothing may move in either direction while a request is answered. */
  readonly stallTimeoutMs: number;
  /** In lower case: what a connection may leave HTTP for. */
  readonly upgradeProtocols: ReadonlySet<string>;
  readonly fields: ResponseFields;
  readonly nowMs: () => number;
  readonly decide: (facts: RequestFacts) => Verdict | Promise<Verdict>;
  /** A client's quota as it is now, without spending it. */
  readonly observe: (client: string) => Decision | Promise<Decision>;
  readonly requestId: (facts: RequestFacts) => string;
  readonly forward: (active: ActiveRequest) => void;
  readonly onEnd: (exchange: Exchange, path: string) => void;
  readonly onFailure: (error: unknown) => void;
}

interface DecidedTurn {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly connection: Connection;
  readonly facts: RequestFacts;
  /** What carries it on when it is to be forwarded. */
  readonly carry: (active: ActiveRequest) => void;
  readonly upgrade: UpgradeRequest | null;
}

/** How often connections are looked at that may have been idle for too long. */
const checkIntervalMs = 500;

export class TrafficServer {
  readonly #options: TrafficServerOptions;
  readonly #connections: ConnectionTable;
  readonly #context: ActiveRequestContext;
  readonly #rawAnswers: RawAnswers;
  readonly #intake: Intake;
  readonly #acceptor: Acceptor;
  #mount: FastifyInstance | null = null;
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
    this.#intake = new Intake({
      ...options,
      connections: this.#connections,
      answers: options.tls === null ? this.#rawAnswers : null,
    });
    this.#acceptor = new Acceptor(options, this.#intake);
  }

  get connectionCount(): number {
    return this.#intake.count;
  }

  async listen(host: string, port: number): Promise<{ host: string; port: number }> {
    this.#mount = await createMount({
      upstreamUrl: this.#options.upstreamUrl,
      createServer: (handler) => this.#createServer(handler),
      onClientError: (error, socket) => this.#onClientError(error, socket),
      onRequest: (req) => this.#onMounted(req),
      onFailure: (req, error) => this.#onMountFailure(req, error),
    });
    const server = this.#server;
    if (server === null) throw new Error("the mount made no server");
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
    const { keepAliveTimeoutMs, headTimeoutMs } = this.#options;
    const endIdle = (): void => this.#connections.destroyIdle(keepAliveTimeoutMs + headTimeoutMs);
    this.#idleTimer = setInterval(endIdle, checkIntervalMs).unref();
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

  #createServer(mountHandler: RequestHandler): Server {
    const server = createNodeServer({
      ...this.#options,
      shouldUpgrade: (req) => this.#shouldUpgrade(req),
      onRequest: (req, res) => this.#onRequest(req, res, mountHandler),
      onUpgrade: (req, head) => this.#onUpgrade(req, head),
      onConnect: (req) => this.#onConnect(req.socket),
    });
    this.#acceptor.acceptOn(server, {
      onConnection: (accepted) => this.#onConnection(accepted),
      onHttp2: (accepted) => this.#onHttp2(accepted),
    });
    this.#server = server;
    return server;
  }

  #onConnection(accepted: Accepted): void {
    const { bounds, headTimeoutMs } = this.#options;
    const connection = new Connection(accepted, bounds.maxRequestsPerConnection);
    this.#connections.add(connection);
    if (this.#isDraining) connection.endWhenIdle(headTimeoutMs);
  }

  #onHttp2(accepted: Accepted): void {
    const options = { ...this.#options, maxRequests: this.#options.bounds.maxRequestsPerConnection };
    const connection = new Http2Connection(accepted, options, this.#context);
    this.#connections.add(connection);
    if (this.#isDraining) connection.endWhenIdle();
  }

  #onRequest(req: IncomingMessage, res: ServerResponse, mountHandler: RequestHandler): void {
    const connection = this.#connections.get(req.socket);
    // Bytes after a last answer, and requests of a socket that is gone already.
    if (connection === undefined || connection.isClosing) return;
    const carry = (): void => {
      presentToMount(req);
      mountHandler(req, res);
    };
    connection.inTurn({ req, start: () => this.#decide({ req, res, connection, carry, upgrade: null }) });
  }

  /** Node takes the socket out of its own hands then, which an answer that is still being written would not survive. */
  #shouldUpgrade(req: IncomingMessage): boolean {
    const connection = this.#connections.get(req.socket);
    if (connection === undefined || !connection.isIdle || connection.isClosing) return false;
    const { rawHeaders: rawFields, method = "", httpVersion } = req;
    return mayUpgrade({ rawFields, method, httpVersion }, this.#options.upgradeProtocols);
  }

  #onUpgrade(req: IncomingMessage, head: Buffer): void {
    const connection = this.#connections.get(req.socket);
    if (connection === undefined) {
      req.socket.destroy();
      return;
    }
    const upgrade = new UpgradeRequest(req, connection, head);
    const carry = (active: ActiveRequest): void => this.#options.forward(active);
    connection.inTurn({ req, start: () => this.#decide({ req, res: upgrade.res, connection, carry, upgrade }) });
  }

  #decide(request: Omit<DecidedTurn, "facts">): void {
    const { req, connection } = request;
    const facts: RequestFacts = {
      peer: connection.peer,
      rawFields: req.rawHeaders,
      method: req.method ?? "",
      target: req.url ?? "",
      httpVersion: req.httpVersion,
      nowMs: this.#options.nowMs(),
    };
    const fail = (error: unknown): void => this.#onDecideFailure(req.socket, error);
    const turn = { ...request, facts };
    try {
      const verdict = this.#options.decide(facts);
      if (verdict instanceof Promise) verdict.then((decided) => this.#conclude(turn, decided)).catch(fail);
      else this.#conclude(turn, verdict);
    } catch (error) {
      fail(error);
    }
  }

  #conclude({ facts, carry, ...request }: DecidedTurn, verdict: Verdict): void {
    const exchange = newExchange(facts, verdict, this.#options.requestId(facts));
    const active = new Http1Request({ ...request, facts, verdict, exchange }, this.#context);
    if (verdict.problem !== null) {
      active.refuse(verdict.problem);
      return;
    }
    carry(active);
  }

  #onMounted(req: IncomingMessage): void {
    const active = this.#connections.get(req.socket)?.active;
    if (active !== null && active !== undefined) this.#options.forward(active);
  }

  #onMountFailure(req: IncomingMessage, error: Error): void {
    this.#options.onFailure(error);
    this.#connections.get(req.socket)?.active?.refuse(problems.internal);
  }

  /** A bug: the client is told no more than that, and nothing more of this connection is believed. */
  #onDecideFailure(socket: Socket, error: unknown): void {
    this.#options.onFailure(error);
    const active = this.#connections.get(socket)?.active;
    if (active === null || active === undefined) this.#answerRaw(socket, problems.internal);
    else active.refuse(problems.internal);
  }

  #onClientError(error: Error, socket: Socket): void {
    const connection = this.#connections.get(socket);
    const problem = problemOfParseError(error, connection?.receivedBytes ?? 0);
    if (connection === undefined || problem === null) {
      socket.destroy();
      return;
    }
    const { active } = connection;
    // The error is in this request's body: if that is on its way, it cannot be carried any further.
    if (active?.hasBody && !active.body.complete) active.cancel?.(problem);
    // It is in what came after what is being answered. Behind a last answer it is nobody's concern: a reset could
    // overtake it.
    else if (!connection.isClosing && socket.writable) connection.replaceBroken(() => this.#answerRaw(socket, problem));
  }

  /** CONNECT takes the socket out of Node's hands, which a response that is still being written does not survive. */
  #onConnect(socket: Socket): void {
    if (this.#connections.get(socket)?.isIdle) this.#answerRaw(socket, problems.unsupportedMethod);
    else socket.destroy();
  }

  #answerRaw(socket: Socket, problem: Problem): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined) socket.destroy();
    else this.#rawAnswers.answer(connection, problem);
  }
}
