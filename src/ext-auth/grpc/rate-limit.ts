// Envoy's rate limit service: the quota alone, of the client that Envoy names. Where the limit is reached the client gets the
// gateway's 429 with its fields and body; where it is not, the fields.
import type { Exchange } from "../../exchange/exchange.ts";
import type { CheckAnswer, CheckCaller, Checks } from "../check.ts";
import { clientFields, without } from "./answer-fields.ts";
import type { GrpcCall } from "./call.ts";
import { rateLimitResponse, readRateLimitRequest } from "./rate-limit-messages.ts";
import { readQuestion } from "./rate-limit-question.ts";
import { statuses } from "./status.ts";

/** Envoy sends the length itself; to the Date and the request id that it has already, others would be added. */
const notToAdd: ReadonlySet<string> = new Set(["content-length", "date", "x-request-id"]);

export function rateLimit(checks: Checks, nowMs: () => number): (message: Buffer, call: GrpcCall) => void {
  return (message, call) => {
    const request = readRateLimitRequest(message);
    if (request === undefined) return call.fail(statuses.malformed);
    const question = readQuestion(request);
    if ("code" in question) return call.fail(question);
    const caller = new RateLimitCaller(call, nowMs);
    if (!checks.beginQuota({ ...question, rawHeaders: [] }, caller)) call.fail(statuses.notAnAddress);
  };
}

class RateLimitCaller implements CheckCaller {
  readonly #call: GrpcCall;
  readonly #nowMs: () => number;

  constructor(call: GrpcCall, nowMs: () => number) {
    this.#call = call;
    this.#nowMs = nowMs;
  }

  get isGone(): boolean {
    return this.#call.isOver;
  }

  answer({ headers, body }: CheckAnswer, { decision, problem }: Exchange): void {
    if (problem === "internal") {
      this.abort();
      return;
    }
    const { outcome, policy, limit, remaining, resetMs } = decision;
    const isOverLimit = outcome === "throttled";
    this.#call.reply(
      rateLimitResponse({
        isOverLimit,
        limit,
        windowMs: policy.rate.kind === "sliding" ? policy.rate.windowMs : 0,
        policyName: policy.name,
        remaining,
        untilResetMs: Math.max(0, resetMs - this.#nowMs()),
        fields: without(isOverLimit ? headers : clientFields(headers), notToAdd),
        body,
      }),
    );
  }

  /** There is no decision: Envoy applies its own setting for failures. */
  abort(): void {
    this.#call.fail(statuses.internal);
  }
}
