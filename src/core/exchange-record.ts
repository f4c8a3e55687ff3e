// One request and what became of it: filled in by the pipeline, read once by metrics and log when it is over.

import type { AuthOutcome } from "./authenticator.ts";
import type { LocalReply, RefusalReason } from "./local-reply.ts";
import type { Decision } from "./policy.ts";
import type { RequestHead, Verdict } from "./request-head.ts";
import { readTraceId } from "./trace-context.ts";

/** `proxy`: it came over the traffic listener. `decision`: an ingress asked about it, and carries it itself. */
export type RequestSource = "proxy" | "ext-auth";

/** All instants are readings of the monotonic clock, in milliseconds. */
export interface ExchangeRecord {
  readonly source: RequestSource;
  /** The value of X-Request-Id. */
  readonly id: string;
  /** The trace it belongs to, by its own word; null if it names none. */
  readonly traceId: string | null;
  readonly method: string;
  /** The configured prefix the path is under, such as "/v2/"; null outside every route. */
  readonly route: string | null;
  /** The address that is charged, grouped by prefix for IPv6. */
  readonly client: string;
  readonly decision: Decision;
  readonly auth: AuthOutcome;
  /** When the head had been read. */
  readonly startedMs: number;
  /** When it began to wait for a free connection to the upstream; null if it never had to. */
  queuedMs: number | null;
  /** When the request was handed to the upstream; null if it never was. */
  dispatchedMs: number | null;
  /** When the upstream's response head arrived; null if none did. */
  answeredMs: number | null;
  /** When the response head was written to the client; null if the client left first. */
  respondedMs: number | null;
  /** When the response was complete or the connection was lost. */
  endedMs: number;
  /** Status sent to the client, 0 if none was. */
  status: number;
  /** Why the gateway itself answered; null when the answer is the upstream's. */
  problem: RefusalReason | null;
  /** False if the connection ended before the response was whole. */
  complete: boolean;
}

/** A request that has just been decided. */
export function newRecord(
  { method, nowMs, rawHeaders }: RequestHead,
  verdict: Verdict,
  id: string,
  source: RequestSource = "proxy",
): ExchangeRecord {
  return {
    source,
    id,
    traceId: readTraceId(rawHeaders),
    method,
    route: verdict.reading.route,
    client: verdict.reading.client,
    decision: verdict.decision,
    auth: verdict.auth,
    startedMs: nowMs,
    queuedMs: null,
    dispatchedMs: null,
    answeredMs: null,
    respondedMs: null,
    endedMs: nowMs,
    status: 0,
    problem: null,
    complete: false,
  };
}

/** Bytes that never became a request, and have been answered. */
export function unparsedRecord(client: string, decision: Decision, problem: LocalReply, nowMs: number): ExchangeRecord {
  return {
    source: "proxy",
    id: "",
    traceId: null,
    method: "",
    route: null,
    client,
    decision,
    auth: "skipped",
    startedMs: nowMs,
    queuedMs: null,
    dispatchedMs: null,
    answeredMs: null,
    respondedMs: nowMs,
    endedMs: nowMs,
    status: problem.status,
    problem: problem.reason,
    complete: true,
  };
}
