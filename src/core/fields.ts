// The headers that every response carries, whatever transport sends it. RateLimit-Reset is in Unix seconds, as the
// API's specification demands; the structured RateLimit contains the seconds that remain.
import { type Clock, httpDate } from "./clock.ts";
import type { AllowedOrigins } from "./cors.ts";
import type { HeaderList } from "./header-list.ts";
import type { LocalReply } from "./local-reply.ts";
import type { Decision } from "./policy.ts";

export type FieldKind = "standard" | "legacy" | "structured";

/** Headers that only the gateway sets; an upstream's own are removed, because a client may read either. Lower case. */
export const gatewayResponseFields: ReadonlySet<string> = new Set([
  "date",
  "ratelimit-limit",
  "ratelimit-remaining",
  "ratelimit-reset",
  "x-ratelimit-limit",
  "x-ratelimit-remaining",
  "x-ratelimit-reset",
  "ratelimit",
  "ratelimit-policy",
  "x-request-id",
]);

export interface ResponseFieldsOptions {
  readonly clock: Clock;
  readonly kinds: readonly FieldKind[];
  readonly realm: string;
  /** Null: no page of another origin may read a local reply. */
  readonly cors: AllowedOrigins | null;
}

export class ResponseFields {
  readonly #clock: Clock;
  readonly #kinds: ReadonlySet<FieldKind>;
  readonly #realm: string;
  readonly #cors: AllowedOrigins | null;
  /** What a page of another origin may read of a local reply. */
  readonly #exposed: string;
  #dateSecond = Number.NaN;
  #date = "";

  constructor(options: ResponseFieldsOptions) {
    this.#clock = options.clock;
    this.#kinds = new Set(options.kinds);
    this.#realm = options.realm;
    this.#cors = options.cors;
    this.#exposed = exposedNames(this.#kinds).join(", ");
  }

  /** Adds to `fields` what every response carries: Date, the rate-limit headers and X-Request-Id. */
  always(decision: Decision, requestId: string, fields: string[] = []): string[] {
    const wallMs = this.#clock.wallMs();
    const untilResetMs = decision.resetMs - this.#clock.monotonicMs();
    const { limit } = decision;
    // Rounded up, so that a client that waits until the reset is not early.
    const values = [`${limit}`, `${decision.remaining}`, `${Math.ceil((wallMs + untilResetMs) / 1000)}`] as const;
    fields.push("Date", this.#dateAt(wallMs));
    if (this.#kinds.has("standard")) pushTriple(fields, standardNames, values);
    if (this.#kinds.has("legacy")) pushTriple(fields, legacyNames, values);
    if (this.#kinds.has("structured")) {
      const decisions = decision.others === null ? [decision] : decision.others;
      const nowMs = decision.resetMs - untilResetMs;
      fields.push("RateLimit-Policy", decisions.map(policyItem).join(", "));
      fields.push("RateLimit", decisions.map((each) => quotaItem(each, nowMs)).join(", "));
    }
    fields.push("X-Request-Id", requestId);
    return fields;
  }

  /** Returns whole seconds until the reset, at least 1, because many clients treat 0 as no Retry-After. */
  retryAfterSeconds(decision: Decision): number {
    return Math.max(1, Math.ceil((decision.resetMs - this.#clock.monotonicMs()) / 1000));
  }

  /**
   * Returns the Retry-After for an upstream's 429: the largest of its own values and the gateway's, which all apply.
   */
  largestRetryAfter(upstreamValues: readonly string[], decision: Decision): string {
    const wallMs = this.#clock.wallMs();
    let seconds = this.#ownWaitSeconds(decision);
    let largest = `${seconds}`;
    for (const value of upstreamValues) {
      const asked = secondsUntil(value, wallMs);
      // Also skips an unreadable value, which is NaN.
      if (!(asked >= seconds)) continue;
      seconds = asked;
      largest = value;
    }
    return largest;
  }

  /**
   * The gateway's part of the wait after an upstream's 429. The reset of a calendar quota may be weeks away, so it counts
   * only if the quota is used up.
   */
  #ownWaitSeconds(decision: Decision): number {
    const { rate, cost } = decision.policy;
    return rate.kind === "calendar" && decision.remaining >= cost ? 1 : this.retryAfterSeconds(decision);
  }

  /** Returns the headers of a local reply, without Connection, and its body. `asked`: the headers of the request. */
  localReply(
    reply: LocalReply,
    decision: Decision,
    requestId: string,
    asked: HeaderList,
  ): { headers: string[]; body: string } {
    const { status, body } = reply;
    const headers = this.always(decision, requestId);
    if (status === 429) headers.push("Retry-After", `${this.#retryAfter(reply, decision)}`);
    if (status === 401) headers.push("WWW-Authenticate", this.#challenge(reply));
    headers.push("Cache-Control", "no-store");
    this.#pushCors(headers, asked);
    // The bodies are ASCII, so each character is one byte. A 204 has no Content-Length (RFC 9110, 8.6).
    if (status !== 204) {
      headers.push("Content-Type", "application/json; charset=utf-8", "Content-Length", `${body.length}`);
    }
    return { headers, body };
  }

  #pushCors(headers: string[], asked: HeaderList): void {
    const origin = this.#cors?.find(asked) ?? null;
    if (origin === null) return;
    headers.push("Access-Control-Allow-Origin", origin, "Access-Control-Expose-Headers", this.#exposed);
    headers.push("Vary", "Origin");
  }

  /** The budget for refusals has a token again within a second, whatever the quota of the client is. */
  #retryAfter({ reason }: LocalReply, decision: Decision): number {
    return reason === "too_many_refusals" ? 1 : this.retryAfterSeconds(decision);
  }

  #challenge({ reason }: LocalReply): string {
    const realm = `Bearer realm="${this.#realm}"`;
    return reason === "invalid_token" ? `${realm}, error="invalid_token"` : realm;
  }

  #dateAt(wallMs: number): string {
    const second = Math.floor(wallMs / 1000);
    if (second !== this.#dateSecond) {
      this.#dateSecond = second;
      this.#date = httpDate(wallMs);
    }
    return this.#date;
  }
}

/** An item of RateLimit-Policy. A month has no fixed length, so it has no window. */
function policyItem({ policy: { name, rate }, limit }: Decision): string {
  switch (rate.kind) {
    case "sliding":
      return `"${name}";q=${limit};w=${Math.ceil(rate.windowMs / 1000)}`;
    case "calendar": {
      const seconds = periodSeconds[rate.per];
      return seconds === null ? `"${name}";q=${limit}` : `"${name}";q=${limit};w=${seconds}`;
    }
    case "concurrency":
      return `"${name}";q=${limit};qu="concurrent-requests"`;
  }
}

const periodSeconds = { minute: 60, hour: 3600, day: 86_400, month: null } as const;

/** An item of RateLimit. Nobody knows when a slot is free again. */
function quotaItem({ policy: { name, rate }, remaining, resetMs }: Decision, nowMs: number): string {
  if (rate.kind === "concurrency") return `"${name}";r=${remaining}`;
  return `"${name}";r=${remaining};t=${Math.max(0, Math.ceil((resetMs - nowMs) / 1000))}`;
}

// The form that senders must use (RFC 9110, 5.6.7). Date.parse alone finds a year in almost any text.
const imfFixdate = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** Returns the seconds that a Retry-After demands; NaN if it cannot be parsed. */
function secondsUntil(retryAfter: string, wallMs: number): number {
  if (/^\d{1,15}$/.test(retryAfter)) return Number(retryAfter);
  return imfFixdate.test(retryAfter) ? (Date.parse(retryAfter) - wallMs) / 1000 : Number.NaN;
}

type Triple = readonly [limit: string, remaining: string, reset: string];

const standardNames: Triple = ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"];
const legacyNames: Triple = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

/** Without being named, these headers are hidden from pages of other origins. */
function exposedNames(kinds: ReadonlySet<FieldKind>): string[] {
  return [
    ...(kinds.has("standard") ? standardNames : []),
    ...(kinds.has("legacy") ? legacyNames : []),
    ...(kinds.has("structured") ? ["RateLimit", "RateLimit-Policy"] : []),
    ...["Retry-After", "Date", "X-Request-Id"],
  ];
}

function pushTriple(fields: string[], names: Triple, values: Triple): void {
  fields.push(names[0], values[0], names[1], values[1], names[2], values[2]);
}
