// What is known of an exchange while it lasts and when it has ended. Changes nothing by itself.
import type { AuthOutcome } from "../core/authentication.ts";
import type { BrokenRule } from "../core/broken-rule.ts";
import type { ExchangeRecord, RequestSource } from "../core/exchange-record.ts";
import { type HeaderList, headerValues } from "../core/headers.ts";
import type { RefusalReason } from "../core/local-reply.ts";
import type { Decision } from "../core/policy.ts";
import { headTextBytes, pendingVerdict, type RequestHead, type Verdict } from "../core/request-head.ts";
import type { UpstreamFault } from "../core/upstream.ts";
import type { Transport } from "./transport.ts";

/**
 * The facts about an exchange: the head of its request, its verdict and its instants. The metrics and the access log
 * read them when it has ended.
 */
export abstract class RecordedExchange implements ExchangeRecord {
  abstract readonly source: RequestSource;
  abstract readonly subject: string | null;
  abstract readonly transport: Transport;
  readonly head: RequestHead;
  readonly startedMs: number;
  id = "";
  abstract readonly requestId: string | null;
  queuedMs: number | null = null;
  dispatchedMs: number | null = null;
  answeredMs: number | null = null;
  respondedMs: number | null = null;
  endedMs = 0;
  status = 0;
  problem: RefusalReason | null = null;
  detail: string | BrokenRule | null = null;
  fault: UpstreamFault | null = null;
  complete = false;
  /** The upstream has been given the whole body. */
  isBodySent = false;
  #verdict: Verdict = pendingVerdict;

  constructor(head: RequestHead, startedMs: number) {
    this.head = head;
    this.startedMs = startedMs;
  }

  get verdict(): Verdict {
    return this.#verdict;
  }

  protected set verdict(verdict: Verdict) {
    this.#verdict = verdict;
  }

  /** True if the request has a body, or may have one. */
  get hasBody(): boolean {
    return this.#verdict.parsed.message.contentLength !== 0;
  }

  get expectsContinue(): boolean {
    return this.#verdict.parsed.message.expectsContinue;
  }

  get traceId(): string | null {
    return readTraceId(this.head.rawHeaders);
  }

  get bytesReceived(): number | null {
    const bodyBytes = this.transport.bodyBytesReceived;
    return bodyBytes === null ? null : headTextBytes(this.head) + bodyBytes;
  }

  get bytesSent(): number | null {
    return this.transport.bytesSent;
  }

  get method(): string {
    return this.head.method;
  }

  get route(): string | null {
    return this.#verdict.parsed.route;
  }

  get client(): string {
    return this.#verdict.parsed.client;
  }

  get isProbe(): boolean {
    return this.#verdict.localReply?.isProbe === true;
  }

  get decision(): Decision {
    return this.#verdict.decision;
  }

  get rule(): string | null {
    return this.#verdict.blockedBy?.id ?? null;
  }

  get auth(): AuthOutcome {
    return this.#verdict.auth;
  }
}

/** version "-" trace-id "-" parent-id "-" flags; a later version may append more (section 4.3). */
const traceparent = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}($|-)/;

/**
 * Reads the trace ID of a request (W3C Trace Context, level 2) for the log only: the headers are forwarded unchanged, valid or
 * not. Returns null unless there is exactly one `traceparent` and it is valid.
 */
export function readTraceId(rawHeaders: HeaderList): string | null {
  const [value, another] = headerValues(rawHeaders, "traceparent");
  if (value === undefined || another !== undefined) return null;
  const [, version, traceId, end] = traceparent.exec(value) ?? [];
  return traceId === undefined || (version === "00" && end !== "") ? null : traceId;
}
