// What is remembered of one request that was refused, or that the upstream failed. Of its fields X-Request-Id is kept, and of
// its target the path alone: the names in a query can be secrets as well as its values, and no policy and no route looks at them.
import type { Clock } from "../../core/clock.ts";
import type { CounterKey, KeyWords } from "../../core/counter-key.ts";
import type { ExchangeRecord, RequestSource } from "../../core/exchange-record.ts";
import { type RefusalReason, ruleOf } from "../../core/local-reply.ts";
import { resetSecond, retryAfterSeconds } from "../../core/response-fields.ts";
import type { UpstreamErrorReason } from "../../core/upstream.ts";

/** Why a request was answered so. */
export interface RefusedRequest {
  /** The gateway's own. */
  readonly id: string;
  /** The X-Request-Id that the request came with, without what looks like a credential; null: the answer had `id`. */
  readonly requestId: string | null;
  /** It was found by its `requestId`, and others had the same before it. */
  readonly isRepeated?: true;
  /** When it was answered, in Unix milliseconds. */
  readonly atMs: number;
  readonly source: RequestSource;
  /** Cut to 32 characters. */
  readonly method: string;
  /** The path without its query, cut to 256 characters; "" if none was read. */
  readonly target: string;
  readonly route: string | null;
  /** The address or network that is charged. */
  readonly client: string;
  /** The same. */
  readonly clientKey: KeyWords;
  /** As it may be logged, cut to 96 bytes. */
  readonly subject: string | null;
  /** The status that was sent; 0 if none was. */
  readonly status: number;
  /** Null: the response broke off, because the upstream failed behind its head. */
  readonly reason: RefusalReason | null;
  /** The policy that the response speaks of, which has refused the request only if the reason says so. */
  readonly policy: string;
  /** Its counter. */
  readonly key: KeyWords;
  /** The values of the RateLimit fields. `reset`: in Unix seconds. */
  readonly limit: number;
  readonly remaining: number;
  readonly reset: number;
  /** The value of Retry-After; null without one. */
  readonly retryAfterSeconds: number | null;
  /** The id of the rule by which it was blocked; null if it was not. */
  readonly rule: string | null;
  /** The rule of HTTP that it or its response breaks; null: none that is known. */
  readonly brokenRule: string | null;
  /** How the upstream failed it; null if it did not. */
  readonly fault: UpstreamCause | null;
}

/** As the log has it. */
interface UpstreamCause {
  readonly reason: UpstreamErrorReason;
  readonly code: string | null;
  readonly address: string | null;
}

/** How parts of a request may be kept. */
export interface KeptForms {
  readonly clock: Pick<Clock, "wallMsAt">;
  /** Returns the part of a request's target that may be kept: in ASCII, without query and credentials. */
  readonly targetOf: (target: string) => string;
  /** Returns the id that a request came with, as it may be kept. */
  readonly requestIdOf: (exchange: ExchangeRecord) => string | null;
}

/** `path`: of its target, as it came; "" if none was read. */
export function refusedRequest(
  exchange: ExchangeRecord,
  path: string,
  { clock, targetOf, requestIdOf }: KeptForms,
): RefusedRequest {
  const { decision, source, route, status, rule, subject, fault, problem: reason } = exchange;
  const { limit, remaining, resetMs } = decision;
  const answeredMs = exchange.respondedMs ?? exchange.endedMs;
  const atMs = clock.wallMsAt(answeredMs);
  const requestId = requestIdOf(exchange);
  return {
    id: keptText(exchange.id, 36),
    requestId: requestId && keptText(requestId, 128),
    atMs,
    source,
    method: keptText(exchange.method, 32),
    // Without a reading of the path, the target is still what a person looks for.
    target: keptText(targetOf(path === "" ? exchange.head.target : path), 256),
    route,
    client: keptText(exchange.client, 48),
    clientKey: wordsOf(decision.client),
    subject: subject === null ? null : keptSubject(subject),
    status,
    reason,
    policy: decision.policy.name,
    key: wordsOf(decision.key),
    limit,
    remaining,
    reset: resetSecond(decision, answeredMs, atMs),
    retryAfterSeconds: status === 429 ? retryAfterSeconds(reason, resetMs - answeredMs) : null,
    rule,
    brokenRule: ruleOf(exchange.detail),
    fault: fault && { reason: fault.reason, code: fault.code, address: fault.address },
  };
}

/** Returns the part of a subject by which it is found. */
export function keptSubject(subject: string): string {
  return keptText(subject, 96);
}

const scratch = Buffer.alloc(256);

/**
 * Returns a copy of a text, of at most so many bytes, without a part of a character. A part of a text of a request would keep the
 * whole head alive.
 */
export function keptText(text: string, maxBytes: number): string {
  return scratch.toString("utf8", 0, scratch.write(text, 0, maxBytes));
}

export function wordsOf({ a, b, c, d, isAddress }: CounterKey): KeyWords {
  return { a, b, c, d, isAddress };
}
