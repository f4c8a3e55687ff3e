// The facts about an exchange that has ended, for the metrics and the access log.
import type { AuthOutcome } from "./authentication.ts";
import type { BrokenRule } from "./broken-rule.ts";
import type { RefusalReason } from "./local-reply.ts";
import type { Decision } from "./policy.ts";
import type { RequestHead } from "./request-head.ts";
import type { UpstreamFault } from "./upstream.ts";

/** `proxy`: the request came over the traffic listener. `ext-auth`: an ingress checks it here and forwards it itself. */
export type RequestSource = "proxy" | "ext-auth";

/** All instants are readings of the monotonic clock, in milliseconds. */
export interface ExchangeRecord {
  readonly source: RequestSource;
  readonly head: RequestHead;
  /** The gateway's own; the value of X-Request-Id if `requestId` is null. */
  readonly id: string;
  /** The X-Request-Id that the request came with, if it is kept: the client's word, which may come again; null: it is not. */
  readonly requestId: string | null;
  /** The trace ID in the request's traceparent; null without one. */
  readonly traceId: string | null;
  /** Empty if no request could be parsed. */
  readonly method: string;
  /** The configured prefix of the path, such as "/v2/"; null outside of all routes. */
  readonly route: string | null;
  /** The address that is charged, grouped by prefix for IPv6. */
  readonly client: string;
  /** As in LocalReply. */
  readonly isProbe: boolean;
  readonly decision: Decision;
  readonly auth: AuthOutcome;
  /** Whom the token stands for, as it may be logged; null if nobody verified it, or it must not be. */
  readonly subject: string | null;
  /** When the head had been read. */
  readonly startedMs: number;
  /** When the request began to wait for a free connection to the upstream; null if it did not wait. */
  readonly queuedMs: number | null;
  /** When the request got a connection to the upstream, open or about to be opened; null if it got none. */
  readonly dispatchedMs: number | null;
  /** When the upstream's response head arrived; null if none did. */
  readonly answeredMs: number | null;
  /** When the response head was written to the client; null if the client left first. */
  readonly respondedMs: number | null;
  /** When the response was complete or the connection was lost. */
  readonly endedMs: number;
  /** The status sent to the client, 0 if none was. */
  readonly status: number;
  /** Why the gateway refused the request; null if it did not. */
  readonly problem: RefusalReason | null;
  /**
   * Which bound the request exceeded, and by how much, or which rule of HTTP it, or the response to it, breaks; null if `problem`
   * says it all.
   */
  readonly detail: string | BrokenRule | null;
  /** How the upstream failed the request; null if it did not. */
  readonly fault: UpstreamFault | null;
  /** The id of the rule by which the request is blocked; null if it is not. */
  readonly rule: string | null;
  /** Of the request's head, as `Name: value`, and of its body without framing, as far as received; null: not known. */
  readonly bytesReceived: number | null;
  /** Of the heads and the body that were written to the client, before encryption and compression; null: not known. */
  readonly bytesSent: number | null;
  /** False if the connection ended before the response was complete. */
  readonly complete: boolean;
}
