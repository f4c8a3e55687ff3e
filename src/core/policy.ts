// The rate limits and the decisions of the limiter, as limits, responses, metrics and the log use them.
import type { CounterKey } from "./counter-key.ts";
import type { Method } from "./method.ts";

/** What a policy is called, and which requests share a counter. */
export interface KeyedPolicy {
  readonly name: string;
  /** The parts of the key; empty: one counter for all requests. */
  readonly key: readonly KeyPart[];
}

/** A rate limit. Units: requests, or what a request costs. */
export interface Policy extends KeyedPolicy {
  readonly rate: Rate;
  /** What is admitted for one key in any trailing window, in one period, or at once; from 1. */
  readonly limit: number;
  /** What one request spends; from 1 to `limit`. */
  readonly cost: number;
  readonly match: PolicyMatch;
  /** `verified`: only requests whose token was verified; `others`: all the rest; null: all. */
  readonly who: PolicyWho | null;
  /** A request is charged only if its response has one of these statuses; null: always. Held until then. */
  readonly chargeStatuses: readonly number[] | null;
  readonly mode: PolicyMode;
  /** Addresses and networks of clients that the policy neither asks nor charges. */
  readonly exempt: readonly string[];
  /** Other limits for some keys. */
  readonly overrides: readonly LimitOverride[];
}

export type Rate =
  /** At most `limit` in any trailing window. */
  | { readonly kind: "sliding"; readonly windowMs: number }
  /** At most `limit` in each period of the calendar. `timezone` is an IANA name. */
  | { readonly kind: "calendar"; readonly per: PeriodName; readonly timezone: string }
  /** At most `limit` at once. */
  | { readonly kind: "concurrency" };

interface PeriodLength {
  /** Without a change of the clocks. */
  readonly shortestMs: number;
  /** With a change of the clocks. */
  readonly longestMs: number;
  /** Whether all are equally long, but for changes of the clocks. */
  readonly isFixed: boolean;
  /** Returns the local date at which the next period begins, as `Date.UTC` does; null: at each multiple of the length. */
  readonly nextDate: NextDate | null;
}

export type NextDate = (year: number, month: number, dayOfMonth: number) => number;

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** All that is known of a period of the calendar. Its name is the value of `per`. */
export const periodLengths = {
  minute: { shortestMs: 60_000, longestMs: 60_000, isFixed: true, nextDate: null },
  hour: { shortestMs: hourMs, longestMs: hourMs, isFixed: true, nextDate: null },
  day: {
    ...{ shortestMs: dayMs, longestMs: dayMs + hourMs, isFixed: true },
    nextDate: (year, month, dayOfMonth) => Date.UTC(year, month, dayOfMonth + 1),
  },
  month: {
    ...{ shortestMs: 28 * dayMs, longestMs: 31 * dayMs + hourMs, isFixed: false },
    nextDate: (year, month) => Date.UTC(year, month + 1, 1),
  },
} as const satisfies Readonly<Record<string, PeriodLength>>;

export type PeriodName = keyof typeof periodLengths;
export const calendarPeriods = Object.keys(periodLengths) as readonly PeriodName[];

export type KeyPart =
  | { readonly kind: "client" | "token" | "subject" | "method" | "route" }
  /** `name`: of a header in lower case, or of a claim. */
  | { readonly kind: "header" | "claim"; readonly name: string };

/** Returns whether the part says something about who asks. */
export function saysWho(kind: KeyPart["kind"]): boolean {
  return kind !== "method" && kind !== "route";
}

/** Returns the part as in the configuration. */
export function keyPartText(part: KeyPart): string {
  return "name" in part ? `${part.kind}:${part.name}` : part.kind;
}

/** The limited requests that a policy is about. An empty list means all. */
export interface PolicyMatch {
  /** A path that ends in "/" is a prefix; "*" stands for one segment. Below the base path. */
  readonly paths: readonly string[];
  readonly methods: readonly Method[];
}

export type PolicyWho = "verified" | "others";

type PolicyMode = "enforce" | "shadow";

export interface LimitOverride {
  /** `client`: an address or a network. `token`: its name, or its SHA-256 digest in hex. */
  readonly part: "client" | "token" | "subject" | "header";
  readonly value: string;
  readonly limit: number;
}

/**
 * `admitted`: the request was charged. `throttled`: the limit was reached and nothing was charged. `would_throttle`:
 * the same of a policy in shadow mode, which refuses nothing. `exempt`: the client is exempt. `observed`: the quota was
 * read and nothing was charged, as for a request outside of all routes, or one that another policy has refused.
 * `unavailable`: the shared store is not there, and the gateway is told to admit nothing then; nothing was charged.
 */
export const outcomes = ["admitted", "throttled", "would_throttle", "exempt", "observed", "unavailable"] as const;

export type Outcome = (typeof outcomes)[number];

/** Returns a count for each outcome. */
export function countsOf(count: (outcome: Outcome) => number): Record<Outcome, number> {
  return Object.fromEntries(outcomes.map((outcome) => [outcome, count(outcome)])) as Record<Outcome, number>;
}

/** A promise only where something is waited for, such as a shared store: one for each request would cost too much. */
export type Awaitable<T> = T | Promise<T>;

/** What is left of a policy's limit for a key. */
interface QuotaLeft {
  /** The policy that the response speaks of. */
  readonly policy: Policy;
  /** What is left after this request. */
  readonly remaining: number;
  /** The earliest monotonic instant at which more becomes available; if throttled, at which this request fits. */
  readonly resetMs: number;
}

/** What a response, the metrics and the log say of a request's policies. */
export interface Decision extends QuotaLeft {
  readonly outcome: Outcome;
  /** The key that was charged, and its client. */
  readonly key: CounterKey;
  readonly client: CounterKey;
  /** The limit for this key: that of the policy, or of an override. */
  readonly limit: number;
  /** What depends on the end of the exchange; null if nothing does. */
  readonly held: Held | null;
  /** If something is held: the one for the tightest policy whose units outlast an upstream's 429; null if there is none. */
  readonly lasting: Decision | null;
  /** Of every enforcing policy that applies, this one too, for the structured fields; null if it is the only one. */
  readonly others: readonly Decision[] | null;
}

/** Something that was taken for an exchange: a slot, or units that its status may give back. */
export interface Held {
  /** Must be called once, when the exchange has ended. `status`: the one that was sent; 0 if none was. */
  end(status: number): void;
  /**
   * Called instead if the exchange becomes a tunnel: settles the units, because the status is known. Returns what the
   * tunnel holds until it ends: the slots; null if there are none.
   */
  switched(status: number): Held | null;
}

/** Returns whether what a request has taken stays taken after an upstream's 429. Slots, and most of `charge`, are given back. */
export function outlasts429({ rate, chargeStatuses }: Policy): boolean {
  return rate.kind !== "concurrency" && (chargeStatuses === null || chargeStatuses.includes(429));
}

/**
 * Returns whether a response should speak of `a`: a refusal whose end is unknown, or that lasts longer, or fewer
 * requests that are left.
 */
export function isMoreUrgent(a: Decision, b: Decision): boolean {
  if (a.outcome !== b.outcome) return urgency[a.outcome] > urgency[b.outcome];
  return a.outcome === "throttled" ? a.resetMs > b.resetMs : isTighter(a, b);
}

/** Returns whether fewer requests are left of `a`, or as many and its reset is later. */
export function isTighter(a: QuotaLeft, b: QuotaLeft): boolean {
  const left = requestsLeft(a) - requestsLeft(b);
  return left === 0 ? a.resetMs > b.resetMs : left < 0;
}

const urgency: Readonly<Record<Outcome, number>> = {
  unavailable: 5,
  throttled: 4,
  admitted: 3,
  observed: 2,
  exempt: 1,
  would_throttle: 0,
};

function requestsLeft({ remaining, policy }: QuotaLeft): number {
  return Math.floor(remaining / policy.cost);
}

/**
 * Returns whether a policy needs a verified identity. `tokensAreVerified`: the authenticator verifies tokens; otherwise
 * the token is read before the check, because any well-formed one passes it.
 */
export function needsIdentity({ key, overrides, who }: Policy, tokensAreVerified: boolean): boolean {
  if (who !== null) return who === "verified";
  const kinds = [...key.map(({ kind }) => kind), ...overrides.map(({ part }) => part)];
  return kinds.some((kind) => kind === "subject" || kind === "claim" || (kind === "token" && tokensAreVerified));
}

/** What says which policy a counter belongs to. */
export interface PolicyIdentity extends KeyedPolicy {
  readonly rate: { readonly kind: Policy["rate"]["kind"] };
}

/** Returns whether what was counted for the policy before also counts for the new one. */
export function isContinued(policy: PolicyIdentity, before: PolicyIdentity): boolean {
  const isSameKey = JSON.stringify(policy.key) === JSON.stringify(before.key);
  return policy.name === before.name && policy.rate.kind === before.rate.kind && isSameKey;
}
