// A request that is being answered, whatever its connection speaks. Every head that goes to a client goes through here,
// so none leaves without its fields; how it is written is left to what carries the request.
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import type { ExchangeRecord } from "../core/exchange-record.ts";
import type { ResponseFields } from "../core/fields.ts";
import type { LocalReply, RefusalReason } from "../core/local-reply.ts";
import type { Decision } from "../core/policy.ts";
import type { RequestHead, Verdict } from "../core/request-head.ts";
import type { RequestListener } from "../core/request-listener.ts";

export interface ExchangeContext {
  readonly fields: ResponseFields;
  readonly nowMs: () => number;
  readonly isDraining: () => boolean;
  /** The client's quota as it is now, without spending it. */
  readonly observe: (client: string) => Decision | Promise<Decision>;
  readonly onEnd: (exchange: ExchangeRecord, path: string) => void;
}

/** What happens to every request, whatever its connection speaks. */
export interface RequestSteps {
  readonly decide: (facts: RequestHead) => Verdict | Promise<Verdict>;
  readonly requestId: (facts: RequestHead) => string;
  readonly forward: (active: Exchange) => void;
  readonly onFailure: (error: unknown) => void;
}

export interface DecidedRequest {
  readonly facts: RequestHead;
  readonly verdict: Verdict;
  readonly exchange: ExchangeRecord;
}

const doubtful: ReadonlySet<RefusalReason> = new Set([
  "malformed",
  "bad_host",
  "bad_field_name",
  "unsupported_encoding",
]);

const isInDoubt = (reason: RefusalReason | null): boolean => reason !== null && doubtful.has(reason);

export abstract class Exchange {
  readonly facts: RequestHead;
  readonly verdict: Verdict;
  readonly exchange: ExchangeRecord;
  readonly hasBody: boolean;
  readonly expectsContinue: boolean;
  abstract readonly scheme: "http" | "https";
  /** Where the client's body is read from, or all of it. */
  abstract readonly body: Readable | Buffer;
  /** The client has left, or the answer has. */
  abstract readonly isGone: boolean;
  /** The answer has its end: one whose status has no body ends with its head. */
  abstract readonly isEnded: boolean;
  /** The system has all that was written. */
  abstract readonly isFlushed: boolean;
  /** Whether it asks for another protocol and may have it. */
  abstract readonly isUpgrade: boolean;
  /** Whoever carries it to the upstream. */
  listener: RequestListener | null = null;
  protected readonly context: ExchangeContext;
  #isObserved = false;

  constructor({ facts, verdict, exchange }: DecidedRequest, context: ExchangeContext) {
    this.facts = facts;
    this.verdict = verdict;
    this.exchange = exchange;
    this.hasBody = verdict.reading.message.contentLength !== 0;
    this.expectsContinue = verdict.reading.message.expectsContinue;
    this.context = context;
  }

  /** Lets a client that waits for it send its body. */
  abstract writeContinue(): void;
  /** Passes an interim response on, if the client can read one. */
  abstract inform(status: number, fields: readonly string[]): void;
  /** Sends the head, if it is kept back for the first piece of the body. */
  abstract flushHead(): void;
  /** Writes a piece of the body, one character a byte if it is text. False: the next one waits for `onDrain`. */
  abstract write(piece: Buffer | string): boolean;
  /** Ends the answer, behind a last piece if there is one. */
  abstract end(piece?: string): void;
  abstract switchProtocols(
    protocol: string,
    fields: readonly string[],
  ): { socket: Socket; early: readonly Buffer[] } | null;
  protected abstract readonly isHeadSent: boolean;
  protected abstract writeHead(status: number, statusText: string, fields: string[]): void;
  /** A head is out already, and no well-formed end may follow: it would pass half a body off as a whole one. */
  protected abstract breakOff(): void;

  respond(status: number, statusText: string, fields: string[], retryAfter: readonly string[]): void {
    const decision = this.decisionToShow();
    if (status === 429) fields.push("Retry-After", this.context.fields.largestRetryAfter(retryAfter, decision));
    this.#write(status, statusText, this.context.fields.always(decision, fields));
  }

  refuse(problem: LocalReply): void {
    if (this.isHeadSent) {
      this.breakOff();
      return;
    }
    this.exchange.problem = problem.reason;
    const { fields, body } = this.context.fields.problem(problem, this.decisionToShow());
    this.#write(problem.status, problem.message, fields);
    // Where an answer to HEAD is known to have no body, it has ended by now.
    if (!this.isEnded) this.end(body);
  }

  /** Client and gateway may disagree about where the next request begins, whatever it is that is answered. */
  protected get isDoubtful(): boolean {
    const { flaw } = this.verdict.reading.message;
    return isInDoubt(flaw?.reason ?? null) || isInDoubt(this.exchange.problem);
  }

  /** What was decided, unless an answer took so long that its reset is over: then what holds now. */
  protected decisionToShow(): Decision {
    const { decision, client } = this.exchange;
    if (decision.resetMs > this.context.nowMs()) return decision;
    const now = this.context.observe(client);
    return now instanceof Promise ? decision : now;
  }

  /** Tells of it, once. */
  protected observe(complete: boolean): void {
    if (this.#isObserved) return;
    this.#isObserved = true;
    this.exchange.endedMs = this.context.nowMs();
    this.exchange.complete = complete;
    this.context.onEnd(this.exchange, this.verdict.reading.target?.path ?? "");
  }

  #write(status: number, statusText: string, fields: string[]): void {
    this.writeHead(status, statusText, fields);
    this.exchange.status = status;
    this.exchange.respondedMs = this.context.nowMs();
  }
}
