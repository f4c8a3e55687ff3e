// Turns what Node's HTTP server reports (requests, upgrades, bytes it cannot parse, heads that take too long) into
// decisions and answers. Nothing leaves without having been decided, and what Node would answer by itself is answered
// here.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { newRecord } from "../../core/exchange-record.ts";
import { type LocalReply, localReplies } from "../../core/local-reply.ts";
import type { RequestHead, Verdict } from "../../core/request-head.ts";
import { mayUpgrade } from "../../core/upgrade.ts";
import type { Exchange, ExchangeContext, RequestSteps } from "../../exchange/exchange.ts";
import { problemOfParseError, type RawAnswers } from "../../exchange/raw-answer.ts";
import type { ConnectionTable } from "../../listener/connection-table.ts";
import type { RequestHandler } from "./mount.ts";
import type { Connection } from "./node-http1-connection.ts";
import { NodeHttp1Exchange } from "./node-http1-exchange.ts";
import { UpgradeRequest } from "./upgrade-request.ts";

export interface NodeRequestsOptions extends RequestSteps {
  /** In lower case: what a connection may leave HTTP for. */
  readonly upgradeProtocols: ReadonlySet<string>;
}

interface DecidedTurn {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly connection: Connection;
  readonly facts: RequestHead;
  /** What carries it on when it is to be forwarded. */
  readonly carry: (active: Exchange) => void;
  readonly upgrade: UpgradeRequest | null;
}

export class NodeRequests {
  readonly #options: NodeRequestsOptions;
  readonly #connections: ConnectionTable;
  readonly #context: ExchangeContext;
  readonly #rawAnswers: RawAnswers;

  constructor(
    options: NodeRequestsOptions,
    parts: { connections: ConnectionTable; context: ExchangeContext; rawAnswers: RawAnswers },
  ) {
    this.#options = options;
    this.#connections = parts.connections;
    this.#context = parts.context;
    this.#rawAnswers = parts.rawAnswers;
  }

  onRequest(req: IncomingMessage, res: ServerResponse, mountHandler: RequestHandler): void {
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
  shouldUpgrade(req: IncomingMessage): boolean {
    const connection = this.#connections.get(req.socket);
    if (connection === undefined || !connection.isIdle || connection.isClosing) return false;
    const { rawHeaders, method = "", httpVersion } = req;
    return mayUpgrade({ rawHeaders, method, httpVersion }, this.#options.upgradeProtocols);
  }

  onUpgrade(req: IncomingMessage, head: Buffer): void {
    const connection = this.#connections.get(req.socket);
    if (connection === undefined) {
      req.socket.destroy();
      return;
    }
    const upgrade = new UpgradeRequest(req, connection, head);
    const carry = (active: Exchange): void => this.#options.forward(active);
    connection.inTurn({ req, start: () => this.#decide({ req, res: upgrade.res, connection, carry, upgrade }) });
  }

  #decide(request: Omit<DecidedTurn, "facts">): void {
    const { req, connection } = request;
    const facts: RequestHead = {
      peer: connection.peer,
      rawHeaders: req.rawHeaders,
      method: req.method ?? "",
      target: req.url ?? "",
      httpVersion: req.httpVersion,
      nowMs: this.#context.nowMs(),
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
    const exchange = newRecord(facts, verdict, this.#options.requestId(facts));
    const active = new NodeHttp1Exchange({ ...request, facts, verdict, exchange }, this.#context);
    if (verdict.problem !== null) {
      active.refuse(verdict.problem);
      return;
    }
    carry(active);
  }

  onMounted(req: IncomingMessage): void {
    const active = this.#connections.get(req.socket)?.active;
    // What waited for the mount may have been answered in the meantime.
    if (active !== null && active !== undefined && !active.isEnded) this.#options.forward(active);
  }

  onMountFailure(req: IncomingMessage, error: Error): void {
    this.#options.onFailure(error);
    this.#connections.get(req.socket)?.active?.refuse(localReplies.internal);
  }

  /** A bug: the client is told no more than that, and nothing more of this connection is believed. */
  #onDecideFailure(socket: Socket, error: unknown): void {
    this.#options.onFailure(error);
    const active = this.#connections.get(socket)?.active;
    if (active === null || active === undefined) this.#answerRaw(socket, localReplies.internal);
    else active.refuse(localReplies.internal);
  }

  onClientError(error: Error, socket: Socket): void {
    const connection = this.#connections.get(socket);
    const problem = problemOfParseError(error, connection?.receivedBytes ?? 0);
    if (connection === undefined || problem === null) {
      socket.destroy();
      return;
    }
    const { active } = connection;
    // The error is in this request's body: if that is on its way, it cannot be carried any further.
    if (active?.hasBody && !active.body.complete) {
      // Nobody carries it while the mount is being loaded.
      if (active.listener !== null) active.listener.cancel(problem);
      else if (!active.isEnded) active.refuse(problem);
    }
    // It is in what came after what is being answered. Behind a last answer it is nobody's concern: a reset could
    // overtake it.
    else if (!connection.isClosing && socket.writable) connection.replaceBroken(() => this.#answerRaw(socket, problem));
  }

  /** CONNECT takes the socket out of Node's hands, which a response that is still being written does not survive. */
  onConnect(socket: Socket): void {
    if (this.#connections.get(socket)?.isIdle) this.#answerRaw(socket, localReplies.unsupportedMethod);
    else socket.destroy();
  }

  #answerRaw(socket: Socket, problem: LocalReply): void {
    const connection = this.#connections.get(socket);
    if (connection === undefined) socket.destroy();
    else this.#rawAnswers.answer(connection, problem);
  }
}

const noFields = Object.freeze({});

/** Shows the mount the least there is. What the client sent stays with the active request. */
function presentToMount(req: IncomingMessage): void {
  req.method = "GET";
  req.url = "/";
  req.headers = noFields;
}
