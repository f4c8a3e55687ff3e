// An ingress asks about a request that it carries itself, and gets the verdict of the same pipeline, counters and fields as
// a request that goes through the gateway. This file knows nothing of what carries the question (HTTP, gRPC): that finds
// out who asks, what about, and how to write the answer.

import { type ClientAddressRules, type Peer, parseForwardedAddress, peerAt } from "../core/client-address.ts";
import type { HeaderLines, HeaderList } from "../core/headers.ts";
import { type ErrorText, errorContent, type LocalReply, localReplies } from "../core/local-reply.ts";
import { HeadersMemory, HeadMemory, type RequestHead } from "../core/request-head.ts";
import type { DenyStatus, Replaceable } from "../core/settings.ts";
import { Exchange, type RuntimeRef } from "../exchange/exchange.ts";
import { WholeReplyTransport } from "../exchange/whole-reply-transport.ts";
import type { AskedQuestion, QuotaHead, QuotaQuestion } from "./quota-decide.ts";
import type { CheckSettings } from "./trusted-callers.ts";

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
  readonly reason: string;
  /** Date, the rate-limit headers, X-Request-Id and X-Headgate-Status; on a refusal all that the proxy's own has. */
  readonly lines: HeaderLines;
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

interface ChecksOptions {
  /** The whole pipeline. */
  readonly runtime: RuntimeRef;
  /** The quota alone, for an ingress that can only be told that the limit is reached. */
  readonly quotaRuntime: RuntimeRef;
  readonly settings: Replaceable<CheckSettings>;
}

export class Checks {
  readonly #options: ChecksOptions;
  readonly #peers = new NamedPeers();

  constructor(options: ChecksOptions) {
    this.#options = options;
  }

  /**
   * Has the caller of `transport` answered. False: `peerAddress` is no IP address; nothing was decided or charged, nobody
   * answered.
   */
  begin(check: Check, transport: CheckTransport): boolean {
    const head = this.read(check, false);
    if (head !== null) this.ask(head, transport);
    return head !== null;
  }

  /**
   * Returns the request that the check is about; null if its client has no IP address. `isKept`: it may be asked about
   * again, so what is read from it is remembered.
   */
  read({ peerAddress, method, target: named, rawHeaders }: Check, isKept: boolean): RequestHead | null {
    const peer = this.#peers.find(peerAddress, this.#options.settings.current.clientAddress);
    const memory = isKept ? new HeadMemory(new HeadersMemory()) : null;
    // A target with a blank or a control byte is refused. Bytes beyond ASCII pass, because some ingresses send them.
    const target = /[\0-\x20\x7f]/.test(named) ? "" : named;
    return peer === null ? null : { peer, rawHeaders, method, target, httpVersion: "1.1", memory };
  }

  /** The same as `begin` for a request that was read under the current rules. */
  ask(head: RequestHead, transport: CheckTransport): void {
    this.#start(head, transport, this.#options.runtime);
  }

  /**
   * The same by the quota alone: no token is required, and nothing but a limit refuses. There is at least one question;
   * either all are charged or none.
   */
  beginQuota(questions: readonly QuotaQuestion[], caller: CheckCaller): boolean {
    const asked: AskedQuestion[] = [];
    for (const question of questions) {
      const head = this.read(question, false);
      if (head === null) return false;
      asked.push({ ...question, head });
    }
    const [first] = asked;
    if (first === undefined) return false;
    const head: QuotaHead = { ...first.head, questions: asked };
    this.#start(head, new CheckTransport(caller), this.#options.quotaRuntime);
    return true;
  }

  /** The policies that a question for a quota may name. */
  get policyNames(): readonly string[] {
    return this.#options.settings.current.policyNames;
  }

  /** The Date line, for the answer to a call that is no check. */
  get date(): HeaderLines {
    return this.#options.runtime.current.fields.date();
  }

  /** Returns the answer to a call that asks nothing that could be decided. It names no client, so no quota is shown. */
  refuse(problem: CheckProblem): CheckAnswer {
    const { runtime, settings } = this.#options;
    const { body, lines } = errorContent(problem, runtime.current.fields.errorFormat);
    const status = statusOf(problem.status, settings.current.denyStatus, false);
    const named = `X-Headgate-Status: ${problem.status}\r\n`;
    return { status, reason: reasonOf(status, problem), lines: named + lines + this.date, body };
  }

  #start(head: RequestHead, transport: CheckTransport, runtime: RuntimeRef): void {
    const exchange = new Exchange(head, transport, runtime);
    transport.begin(exchange, this.#options.settings.current.denyStatus);
    exchange.start();
  }
}

/** The `forward` of a runtime for checks: the ingress carries the request, so the answer is that it may pass. */
export function admitCheck(exchange: Exchange): void {
  exchange.respond(200, "OK", "Cache-Control: no-store\r\nContent-Length: 0\r\n", true);
  exchange.transport.end("");
}

/** Serves the checks of one caller, one after the other. */
export class CheckTransport extends WholeReplyTransport {
  readonly #caller: CheckCaller;
  #denyStatus: DenyStatus = 429;

  constructor(caller: CheckCaller) {
    super();
    this.#caller = caller;
  }

  begin(exchange: Exchange, denyStatus: DenyStatus): void {
    this.exchange = exchange;
    this.isEnded = false;
    this.#denyStatus = denyStatus;
  }

  get isGone(): boolean {
    return this.#caller.isGone;
  }

  abort(): void {
    this.#caller.abort();
  }

  protected sendWhole(meant: number, message: string, allLines: HeaderLines, body: string): void {
    const { exchange } = this;
    if (exchange === null) return;
    // After a bug nobody has decided, and nothing may say so.
    if (exchange.problem === "internal") {
      this.#caller.answer({ status: meant, reason: message, lines: allLines, body }, exchange);
      return;
    }
    const status = statusOf(meant, this.#denyStatus, this.#caller.takesUnavailable);
    let lines = `${allLines}X-Headgate-Status: ${meant}\r\n`;
    // Only an admission: some ingresses pass the whole of a refusal on to the client.
    if (status === 200 && exchange.subject !== null) {
      lines += `X-Headgate-Subject: ${encodeURIComponent(exchange.subject.toWellFormed())}\r\n`;
    }
    // A 204 has no length.
    if (meant === 204 && status !== meant) lines += "Content-Length: 0\r\n";
    this.#caller.answer({ status, reason: reasonOf(status, { status: meant, message }), lines, body }, exchange);
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

/** The only status that is sent in place of another is 403. */
function reasonOf(status: number, meant: { readonly status: number; readonly message: string }): string {
  return status === meant.status ? meant.message : "Forbidden";
}

/**
 * Why a check was refused without a decision. The texts are for the operator who sets an ingress up: the text says what is
 * missing, and never repeats what was sent.
 */
export interface CheckProblem extends ErrorText {
  readonly detail?: LocalReply["detail"];
}

const malformed = (errMsg: string): CheckProblem => ({ status: 400, message: "Bad Request", errMsg });

export const checkProblems = {
  untrusted: {
    status: 403,
    message: "Forbidden",
    errMsg: "This caller may not ask for decisions: see extAuth.trustedCallers and extAuth.secretsFile.",
  },
  noClient: malformed("X-Forwarded-For has to end with the address of the client."),
  noTarget: malformed("The target and the method of the request have to be named, each in exactly one header."),
  noEndpoint: {
    status: 404,
    message: "Not Found",
    errMsg: "Decisions are at /auth-request, /forward-auth and /ext-authz/.",
  },
  malformed: localReplies.malformed,
  headTooLarge: localReplies.headTooLarge,
  slow: localReplies.slowRequest,
} as const satisfies Record<string, CheckProblem>;

/** A power of two. An entry takes about 400 bytes once it is used. */
const entryCount = 8192;
/** That of the longest IPv6 address without a zone. */
const maxLength = 45;

/**
 * The clients that ingresses name, as peers. A peer is kept, because the next request of the same client mostly comes
 * soon, on any connection of the ingress. The table has a fixed size, and an address replaces another one in its entry:
 * a client that provokes this only has its address parsed again. A Map would make a unique copy of each text that it is
 * asked for, which costs more than parsing the address.
 */
export class NamedPeers {
  readonly #known: (Peer | undefined)[] = Array.from({ length: entryCount });

  /** Returns null if the text is no IP address, with a port or without. */
  find(text: string, rules: ClientAddressRules): Peer | null {
    if (text.length > maxLength) return read(text, rules);
    const entry = entryOf(text);
    const known = this.#known[entry];
    if (known !== undefined && known.text === text && known.rules === rules) return known;
    const peer = read(text, rules);
    // In another spelling it would not be found.
    if (peer?.text === text) this.#known[entry] = peer;
    return peer;
  }
}

function read(text: string, rules: ClientAddressRules): Peer | null {
  const address = parseForwardedAddress(text);
  return address === undefined ? null : peerAt(address, rules);
}

function entryOf(text: string): number {
  let hash = 0;
  for (let i = 0; i < text.length; i += 1) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
  return (hash ^ (hash >>> 13)) & (entryCount - 1);
}
