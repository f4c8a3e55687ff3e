// Envoy's rate limit service: the quota alone, of the clients that Envoy names. Where the limit is reached the client gets the
// gateway's 429 with its fields and body; where it is not, the fields. A limit that cannot be checked, of a gateway that
// refuses then, is over the limit as well: Envoy lets a request pass if the call fails, unless it is told otherwise.
import { listOf } from "../../core/headers.ts";
import type { Decision } from "../../core/policy.ts";
import { findQuotaRefusal } from "../../core/request-head.ts";
import type { Exchange } from "../../exchange/exchange.ts";
import type { CheckAnswer, CheckCaller, Checks } from "../check.ts";
import type { QuotaVerdict } from "../quota-decide.ts";
import { clientFields, without } from "./answer-fields.ts";
import type { GrpcCall } from "./call.ts";
import { type DescriptorStatus, rateLimitResponse, readRateLimitRequest } from "./rate-limit-messages.ts";
import { readQuestions } from "./rate-limit-question.ts";
import { statuses } from "./status.ts";

/** Envoy sends the length itself; to the Date and the request id that it has already, others would be added. */
const notToAdd: ReadonlySet<string> = new Set(["content-length", "date", "x-request-id"]);

export function rateLimit(checks: Checks, nowMs: () => number): (message: Buffer, call: GrpcCall) => void {
  return (message, call) => {
    const request = readRateLimitRequest(message);
    if (request === undefined) return call.fail(statuses.malformed);
    const questions = readQuestions(request, checks.policyNames);
    if ("code" in questions) return call.fail(questions);
    if (!checks.beginQuota(questions, new RateLimitCaller(call, nowMs))) call.fail(statuses.notAnAddress);
  };
}

class RateLimitCaller implements CheckCaller {
  readonly takesUnavailable = true;
  readonly #call: GrpcCall;
  readonly #nowMs: () => number;

  constructor(call: GrpcCall, nowMs: () => number) {
    this.#call = call;
    this.#nowMs = nowMs;
  }

  get isGone(): boolean {
    return this.#call.isOver;
  }

  answer({ lines, body }: CheckAnswer, { verdict, problem }: Exchange): void {
    if (problem === "internal") {
      this.abort();
      return;
    }
    const headers = listOf(lines);
    const isOverLimit = isRefused(verdict.decision);
    // Envoy makes it a 429, which has a Retry-After. The end of an outage is not known.
    const shown = problem === "store_unavailable" ? [...headers, "Retry-After", "1"] : headers;
    const { decisions } = verdict as QuotaVerdict;
    const nowMs = this.#nowMs();
    this.#call.reply(
      rateLimitResponse({
        statuses: decisions.map((decision) => statusOf(decision, nowMs)),
        fields: without(isOverLimit ? shown : clientFields(headers), notToAdd),
        body,
      }),
    );
  }

  /** There is no decision: Envoy applies its own setting for failures. */
  abort(): void {
    this.#call.fail(statuses.internal);
  }
}

function isRefused(decision: Decision): boolean {
  return findQuotaRefusal(decision) !== null;
}

function statusOf(decision: Decision, nowMs: number): DescriptorStatus {
  const { policy, limit, remaining, resetMs } = decision;
  return {
    isOverLimit: isRefused(decision),
    limit,
    rate: policy.rate,
    policyName: policy.name,
    remaining,
    untilResetMs: Math.max(0, resetMs - nowMs),
  };
}
