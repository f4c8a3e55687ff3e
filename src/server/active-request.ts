// A request that is being answered. Every head that goes to a client through Node's response goes through here, so none
// leaves without its fields, and the connection is closed exactly when the rest of a body would otherwise be read as a
// request.
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { Verdict } from "../core/decide.ts";
import type { Exchange } from "../core/exchange.ts";
import type { ResponseFields } from "../core/fields.ts";
import type { Decision } from "../core/policy.ts";
import type { Problem, ProblemReason } from "../core/problem.ts";
import { serializeHead } from "../core/response-head.ts";
import type { Connection } from "./connection.ts";
import type { UpgradeRequest } from "./upgrade-request.ts";

/** After these, client and gateway may disagree about where the next request begins. */
const doubtful: ReadonlySet<ProblemReason> = new Set([
  "malformed",
  "bad_host",
  "bad_field_name",
  "unsupported_encoding",
]);

export interface ActiveRequestContext {
  readonly fields: ResponseFields;
  readonly nowMs: () => number;
  readonly isDraining: () => boolean;
  /** The client's quota as it is now, without spending it. */
  readonly observe: (client: string) => Decision | Promise<Decision>;
  readonly onEnd: (exchange: Exchange, path: string) => void;
}

export class ActiveRequest {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly verdict: Verdict;
  readonly exchange: Exchange;
  readonly connection: Connection;
  readonly hasBody: boolean;
  readonly expectsContinue: boolean;
  /** Set when it is handed to the upstream: answers a problem and takes the request back, unless it is over. */
  cancel: ((problem: Problem) => void) | null = null;
  /** Set when it asks for another protocol: its connection carries no further request. */
  readonly upgrade: UpgradeRequest | null;
  readonly #context: ActiveRequestContext;
  #isObserved = false;

  constructor(
    parts: {
      req: IncomingMessage;
      res: ServerResponse;
      verdict: Verdict;
      exchange: Exchange;
      connection: Connection;
      upgrade: UpgradeRequest | null;
    },
    context: ActiveRequestContext,
  ) {
    this.req = parts.req;
    this.res = parts.res;
    this.verdict = parts.verdict;
    this.exchange = parts.exchange;
    this.connection = parts.connection;
    this.hasBody = parts.verdict.reading.message.contentLength !== 0;
    this.expectsContinue = parts.verdict.reading.message.expectsContinue;
    this.upgrade = parts.upgrade;
    this.#context = context;
    parts.connection.active = this;
    parts.res.once("close", () => this.#end());
    // A response that broke off is told by "close"; without a listener the error would end the process.
    parts.res.on("error", ignoreBrokenPipe);
    parts.req.on("error", ignoreBrokenPipe);
  }

  /**
   * Past Node's response, which knows few of them and none of their fields as they came. They are out at once, so the
   * response's own head cannot overtake them. HTTP/1.0 has none (RFC 9110, 15.2).
   */
  inform(status: number, fields: readonly string[]): void {
    if (this.req.httpVersion !== "1.1" || this.res.headersSent) return;
    this.res.socket?.write(serializeHead(status, STATUS_CODES[status] ?? "", fields), "latin1");
  }

  respond(status: number, statusText: string, fields: string[], retryAfter: readonly string[]): void {
    const decision = this.#decisionToShow();
    if (status === 429) fields.push("Retry-After", this.#context.fields.largestRetryAfter(retryAfter, decision));
    this.#writeHead(status, statusText, fields.concat(this.#context.fields.always(decision)));
  }

  /**
   * The 101, and with it the request is over and told of: a tunnel's length would say nothing about how long requests
   * take, and nobody would hear of it for hours. It goes past Node's response, which would make a message of it.
   */
  switchProtocols(protocol: string, fields: readonly string[]): { socket: Socket; early: readonly Buffer[] } | null {
    const { socket } = this.connection;
    const early = this.upgrade?.take() ?? null;
    if (early === null || !socket.writable) return null;
    const own = ["Connection", "Upgrade", "Upgrade", protocol, ...this.#context.fields.always(this.#decisionToShow())];
    socket.write(serializeHead(101, "Switching Protocols", [...fields, ...own]), "latin1");
    this.exchange.status = 101;
    this.exchange.respondedMs = this.#context.nowMs();
    this.#observe(true);
    return { socket, early };
  }

  refuse(problem: Problem): void {
    if (this.res.headersSent) {
      // A head is out already: a well-formed end would pass half a body off as a whole one.
      // To a client without framing a plain end would be a well-formed one as well.
      if (this.req.httpVersion === "1.0") this.connection.reset();
      this.res.destroy();
      return;
    }
    this.exchange.problem = problem.reason;
    const { fields, body } = this.#context.fields.problem(problem, this.#decisionToShow());
    this.#writeHead(problem.status, problem.message, fields);
    this.res.end(body);
  }

  /** What was decided, unless an answer took so long that its reset is over: then what holds now. */
  #decisionToShow(): Decision {
    const { decision, client } = this.exchange;
    if (decision.resetMs > this.#context.nowMs()) return decision;
    const now = this.#context.observe(client);
    return now instanceof Promise ? decision : now;
  }

  #writeHead(status: number, statusText: string, fields: string[]): void {
    const isUnread = this.hasBody && !this.req.complete;
    const { problem } = this.exchange;
    // Behind an Upgrade the parser leaves bytes of the same packet out, even if the upgrade is declined.
    const { asksToLeave } = this.verdict.reading.message;
    const mustEnd = asksToLeave || this.connection.isLastTurn || this.#context.isDraining();
    const isLast = isUnread || mustEnd || (problem !== null && doubtful.has(problem));
    if (isLast) fields.push("Connection", "close");
    this.res.writeHead(status, statusText, fields);
    if (isLast) this.connection.endAfterAnswer(isUnread ? this.req : null);
    this.exchange.status = status;
    this.exchange.respondedMs = this.#context.nowMs();
  }

  #end(): void {
    if (!this.#isObserved) this.#observe(this.res.writableFinished);
    this.connection.endTurn();
  }

  #observe(complete: boolean): void {
    this.#isObserved = true;
    this.exchange.endedMs = this.#context.nowMs();
    this.exchange.complete = complete;
    this.#context.onEnd(this.exchange, this.verdict.reading.target?.path ?? "");
  }
}

function ignoreBrokenPipe(): void {}
