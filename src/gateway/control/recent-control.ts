// The last minutes as people see them: the history, and why a request was refused, in sentences.
import type { HistoryAnswer, RecentRequests, RequestAnswer } from "../../admin/control-plane.ts";
import { formatDuration } from "../../config/leaves.ts";
import { addressKey, keyOfHex } from "../../core/counter-key.ts";
import { cidrOf } from "../../core/ip-address.ts";
import { refusalSentences } from "../../core/local-reply.ts";
import type { Policy } from "../../core/policy.ts";
import type { ForgivenKey } from "../../core/rules.ts";
import type { RequestSettings } from "../../core/settings.ts";
import type { HistoryStep } from "../../telemetry/recent/history.ts";
import type { Recent } from "../../telemetry/recent/recent.ts";
import type { RefusalsOf } from "../../telemetry/recent/refusals.ts";
import type { RefusedRequest } from "../../telemetry/recent/refused-request.ts";
import { readKeyText } from "./key-text.ts";

interface RecentControlOptions {
  readonly recent: Recent;
  /** In force. */
  readonly settings: () => RequestSettings;
  /** How a counter is written, such as `client:203.0.113.7`. */
  readonly keyText: (key: RefusedRequest["key"]) => string;
  /** How a name is remembered; null: it is not. */
  readonly loggedName: (name: string) => string | null;
}

export function createRecentControl({ recent, settings, keyText, loggedName }: RecentControlOptions): RecentRequests {
  const shown = (refusal: RefusedRequest): RequestAnswer => requestAnswer(refusal, settings().policies, keyText);
  return {
    async history(count) {
      const { stepMs, endMs, steps } = recent.history(count ?? undefined);
      const end = endMs === null ? null : new Date(endMs).toISOString();
      return { stepSeconds: stepMs / 1000, end, steps: steps.map((step) => step && stepAnswer(step)) };
    },
    async policyHistory() {
      const { stepMs, endMs, durationsMs, policies } = recent.policyHistory();
      return {
        stepSeconds: stepMs / 1000,
        end: endMs === null ? null : new Date(endMs).toISOString(),
        seconds: durationsMs.map((ms) => ms && secondsOf(ms)),
        policies: policies.map(({ policy, counts }) => ({
          policy,
          admitted: [...counts.admitted],
          throttled: [...counts.throttled],
          would_throttle: [...counts.would_throttle],
          unavailable: [...counts.unavailable],
        })),
      };
    },
    upstream() {
      const { ms, answered, meanMs, abandoned, failures } = recent.upstream();
      const meanSeconds = meanMs === null ? null : secondsOf(meanMs);
      return { seconds: ms / 1000, answered, meanSeconds, abandoned, failures: failures.map((each) => ({ ...each })) };
    },
    async request(id) {
      const refusal = recent.request(id);
      return refusal && shown(refusal);
    },
    async refusals(key, limit) {
      const { ipv6Prefix } = settings().clientAddress;
      const reading = key === null ? null : readKeyText(key, ipv6Prefix);
      if (reading?.ok === false) {
        const detail = `query.key: found another value, expected ${reading.expected}`;
        return { ok: false, why: "unacceptable", details: [detail] };
      }
      const of = reading === null ? everybody : refusalsOf(reading.key, ipv6Prefix, loggedName);
      if (of === null) return { ok: true, value: { refusals: [], isComplete: false } };
      const { refusals, isComplete } = recent.last(of, limit);
      return { ok: true, value: { refusals: refusals.map(shown), isComplete } };
    },
    subscribe(onRefusal) {
      return recent.onRefusal(({ refusals, leftOut }) => {
        for (const [i, refusal] of refusals.entries()) onRefusal(shown(refusal), i === 0 ? leftOut : 0);
      });
    },
  };
}

const everybody: RefusalsOf = { kind: "all" };

/** Null: names are not remembered. */
function refusalsOf(
  { kind, value }: ForgivenKey,
  ipv6Prefix: number,
  loggedName: RecentControlOptions["loggedName"],
): RefusalsOf | null {
  switch (kind) {
    case "client": {
      const { network, prefixBits } = cidrOf(value);
      const { a, b, c, d } = addressKey(network, ipv6Prefix);
      return { kind: "client", network: { a, b, c, d }, prefixBits };
    }
    case "token":
    case "subject": {
      const subject = loggedName(value);
      return subject === null ? null : { kind: "subject", subject };
    }
    case "key": {
      const key = keyOfHex(value);
      return key && { kind: "key", key: { a: key.a, b: key.b, c: key.c, d: key.d } };
    }
  }
}

function stepAnswer({
  durationMs,
  admitted,
  refused,
  latencyMs,
  upstream,
  store,
  memory,
}: HistoryStep): HistoryAnswer["steps"][number] {
  const { answered, meanMs, abandoned, failedByReason } = upstream;
  return {
    ...{ seconds: secondsOf(durationMs), admitted, refused: { ...refused } },
    latencySeconds: percentilesAnswer(latencyMs),
    upstream: {
      answered,
      meanSeconds: meanMs === null ? null : secondsOf(meanMs),
      abandoned,
      latencySeconds: percentilesAnswer(upstream.latencyMs),
      failedByReason: { ...failedByReason },
    },
    store: store && { ...store },
    memory: { ...memory },
  };
}

function percentilesAnswer(
  ms: HistoryStep["latencyMs"],
): NonNullable<HistoryAnswer["steps"][number]>["latencySeconds"] {
  return ms && { p50: secondsOf(ms.p50), p90: secondsOf(ms.p90), p99: secondsOf(ms.p99) };
}

/** In whole microseconds. */
function secondsOf(ms: number): number {
  return Math.round(ms * 1000) / 1e6;
}

function requestAnswer(
  refusal: RefusedRequest,
  policies: readonly Policy[],
  keyText: RecentControlOptions["keyText"],
): RequestAnswer {
  const { id, atMs, source, method, target, route, client, subject, status, reason, retryAfterSeconds, rule } = refusal;
  const { policy, limit, remaining, reset, requestId, isRepeated = false, fault } = refusal;
  const isThrottled = reason === "throttled";
  return {
    ...{ id, requestId, isRepeated },
    ...{ at: new Date(atMs).toISOString(), method, path: target, status, reason, client, subject },
    ...{ source, route, retryAfterSeconds, rule, fault: fault && { ...fault } },
    // Other refusals show a quota, which has not refused them.
    key: isThrottled ? keyText(refusal.key) : null,
    policy: {
      ...{ policy, outcome: isThrottled ? "throttled" : "observed", limit, remaining },
      reset: new Date(reset * 1000).toISOString(),
      resetSeconds: Math.max(0, secondsOf(reset * 1000 - atMs)),
    },
    explanation: explanationOf(
      refusal,
      policies.find(({ name }) => name === policy),
      keyText,
    ),
    remedies: remediesOf(refusal, keyText),
  };
}

/** A client that is forgiven is admitted again; a rule that has ended blocks nobody. */
function remediesOf(
  { reason, key, rule }: RefusedRequest,
  keyText: RecentControlOptions["keyText"],
): RequestAnswer["remedies"] {
  if (reason === "throttled")
    return [{ does: "forgive", call: `DELETE /api/clients/${encodeURIComponent(keyText(key))}` }];
  return reason === "blocked" && rule !== null ? [{ does: "removeRule", call: `DELETE /api/rules/${rule}` }] : [];
}

function explanationOf(
  { reason, policy: name, limit, client, rule, brokenRule, key, fault }: RefusedRequest,
  policy: Policy | undefined,
  keyText: RecentControlOptions["keyText"],
): string[] {
  if (reason === "throttled") {
    const period = policy === undefined ? "" : periodOf(policy);
    const isSlot = policy?.rate.kind === "concurrency";
    return [
      `Policy ${name} admits ${limit}${period} for ${keyText(key)}, and all of it was used.`,
      ...(isSlot ? ["The next request fits when one that is under way ends."] : []),
    ];
  }
  if (reason === "blocked") return [`Rule ${rule ?? "(ended)"} blocks ${client}, its network or its token.`];
  return [
    reason === null ? brokeOff : refusalSentences[reason],
    ...(fault === null ? [] : [faultSentence(fault)]),
    ...(brokenRule === null ? [] : [`What is wrong with it: ${brokenRule}. The log has the line and the field.`]),
  ];
}

const brokeOff = "The upstream failed after the head of its response, so the response broke off.";

function faultSentence({ reason, code, address }: NonNullable<RefusedRequest["fault"]>): string {
  const where = address === null ? "" : ` at ${address}`;
  return `The failure was ${reason}${where}${code === null ? "" : ` (${code})`}.`;
}

function periodOf({ rate }: Policy): string {
  switch (rate.kind) {
    case "sliding":
      return ` in any ${formatDuration(rate.windowMs)}`;
    case "calendar":
      return ` in a ${rate.per} (${rate.timezone})`;
    case "concurrency":
      return " at once";
  }
}
