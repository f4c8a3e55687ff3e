// An ingress asks about a request that it carries itself, and gets the verdict of the same pipeline, counters and fields as
// a request that goes through the gateway. This file knows nothing of what carries the question (HTTP, gRPC): that finds
// out who asks, what about, and how to write the answer.
import { parseForwardedAddress, readPeer } from "../core/client-address.ts";
import type { HeaderList } from "../core/header-list.ts";
import { formatIpAddress } from "../core/ip-address.ts";
import { errorBody } from "../core/local-reply.ts";
import type { RequestHead } from "../core/request-head.ts";
import type { DenyStatus } from "../core/settings.ts";
import type { Replaceable } from "../core/traffic-settings.ts";
import { Exchange, type RuntimeRef } from "../exchange/exchange.ts";
import { WholeReplyTransport } from "../exchange/whole-reply-transport.ts";
import type { CheckProblem } from "./check-problems.ts";
import type { CheckSettings } from "./check-settings.ts";
import type { AskedQuestion, QuotaHead } from "./quota-decide.ts";
import type { QuotaQuestion } from "./quota-question.ts";

/** One request of a client, as the ingress has it. It counts as one request, whatever the verdict is. */
export interface Check {
  /** The client's address as the ingress sees it, with a port or without. It is the peer of the request. */
  readonly peerAddress: string;
  readonly method: string;
  /** As the client sent it: path and query, or an absolute form. */
  readonly target: string;
  /**
   * Of the client's request: one Host, X-Forwarded-For as it came from the peer, Authorization. Whatever else the ingress
   * leaves in is checked as the proxy would check it.
   */
  readonly rawHeaders: HeaderList;
}

export interface CheckAnswer {
  /** 200, or 4xx. 503 if the caller takes it. Another 5xx, which means that nobody has decided, only after a bug. */
  readonly status: number;
  /** Date, the rate-limit headers, X-Request-Id and X-Headgate-Status; on a refusal all that the proxy's own has. */
  readonly headers: HeaderList;
  /** Of a refusal; empty if the request may pass. */
  readonly body: string;
}

/** Whoever asked, and gets the answer: once, at once or later. */
export interface CheckCaller {
  /** It has left. */
  readonly isGone: boolean;
  /** Whether the ingress takes a 503 for a refusal, and not for a failure. */
  readonly takesUnavailable: boolean;
  answer(answer: CheckAnswer, exchange: Exchange): void;
  abort(): void;
}

export interface ChecksOptions {
  /** The whole pipeline. */
  readonly runtime: RuntimeRef;
  /** The quota alone, for an ingress that can only be told that the limit is reached. */
  readonly quotaRuntime: RuntimeRef;
  readonly settings: Replaceable<CheckSettings>;
  readonly nowMs: () => number;
}

export class Checks {
  readonly #options: ChecksOptions;

  constructor(options: ChecksOptions) {
    this.#options = options;
  }

  /** Has `caller` answered. False: `peerAddress` is no IP address; nothing was decided or charged, nobody answered. */
  begin(check: Check, caller: CheckCaller): boolean {
    const head = this.#headOf(check);
    if (head !== null) this.#start(head, caller, this.#options.runtime);
    return head !== null;
  }

  /**
   * The same by the quota alone: no token is required, and nothing but a limit refuses. There is at least one question;
   * either all are charged or none.
   */
  beginQuota(questions: readonly QuotaQuestion[], caller: CheckCaller): boolean {
    const asked: AskedQuestion[] = [];
    for (const question of questions) {
      const head = this.#headOf(question);
      if (head === null) return false;
      asked.push({ ...question, head });
    }
    const [first] = asked;
    if (first === undefined) return false;
    const head: QuotaHead = { ...first.head, questions: asked };
    this.#start(head, caller, this.#options.quotaRuntime);
    return true;
  }

  /** The policies that a question for a quota may name. */
  get policyNames(): readonly string[] {
    return this.#options.settings.current.policyNames;
  }

  /** Returns the answer to a call that asks nothing that could be decided. It names no client, so no quota is shown. */
  refuse(problem: CheckProblem): CheckAnswer {
    const body = errorBody(problem);
    const headers = ["X-Headgate-Status", `${problem.status}`, "Cache-Control", "no-store"];
    headers.push("Content-Type", "application/json; charset=utf-8", "Content-Length", `${body.length}`);
    return { status: statusOf(problem.status, this.#options.settings.current.denyStatus, false), headers, body };
  }

  /** Null: the client has no IP address. */
  #headOf({ peerAddress, method, target, rawHeaders }: Check): RequestHead | null {
    const address = parseForwardedAddress(peerAddress);
    if (address === undefined) return null;
    const { settings, nowMs } = this.#options;
    const peer = readPeer(formatIpAddress(address), settings.current.clientAddress);
    return { peer, rawHeaders, method, target, httpVersion: "1.1", nowMs: nowMs() };
  }

  #start(head: RequestHead, caller: CheckCaller, runtime: RuntimeRef): void {
    const transport = new CheckTransport(caller, this.#options.settings.current.denyStatus);
    const exchange = new Exchange(head, transport, runtime);
    transport.exchange = exchange;
    exchange.start();
  }
}

/** The `forward` of a runtime for checks: the ingress carries the request, so the answer is that it may pass. */
export function admitCheck(exchange: Exchange): void {
  exchange.respond(200, "OK", ["Cache-Control", "no-store", "Content-Length", "0"], []);
  exchange.transport.end("");
}

class CheckTransport extends WholeReplyTransport {
  readonly #caller: CheckCaller;
  readonly #denyStatus: DenyStatus;

  constructor(caller: CheckCaller, denyStatus: DenyStatus) {
    super();
    this.#caller = caller;
    this.#denyStatus = denyStatus;
  }

  get isGone(): boolean {
    return this.#caller.isGone;
  }

  abort(): void {
    this.#caller.abort();
  }

  protected sendWhole(status: number, _reason: string, headers: string[], body: string): void {
    const { exchange } = this;
    if (exchange === null) return;
    // After a bug nobody has decided, and nothing may say so.
    if (exchange.problem === "internal") {
      this.#caller.answer({ status, headers, body }, exchange);
      return;
    }
    headers.push("X-Headgate-Status", `${status}`);
    const { takesUnavailable } = this.#caller;
    this.#caller.answer({ status: statusOf(status, this.#denyStatus, takesUnavailable), headers, body }, exchange);
  }
}

/**
 * Every ingress passes a 401 on, since a client has to answer it. A 501, and over HTTP a 503, would read as a failure of
 * the gateway, which some are told to let through.
 */
function statusOf(status: number, denyStatus: DenyStatus, takesUnavailable: boolean): number {
  if (status === 200 || status === 401) return status;
  if (status === 503 && takesUnavailable && denyStatus !== 403) return status;
  return denyStatus === 403 || status >= 500 ? 403 : status;
}
