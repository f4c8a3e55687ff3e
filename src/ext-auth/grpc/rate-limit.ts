// Envoy's rate limit service: checks only the quota of the client that Envoy names. Over the limit the client gets the
// gateway's 429 with fields and body, else the rate limit fields.
import type { Checker } from "../check.ts";
import { clientFields, without } from "./answer-fields.ts";
import type { GrpcCall } from "./call.ts";
import { rateLimitResponse, readRateLimitRequest } from "./rate-limit-messages.ts";
import { readQuestion } from "./rate-limit-question.ts";
import { statuses } from "./status.ts";

/** Envoy sends both itself and would add a second one. */
const notToAdd: ReadonlySet<string> = new Set(["content-length", "date"]);

export function rateLimit(decide: Checker, nowMs: () => number): (message: Buffer, call: GrpcCall) => Promise<void> {
  return async (message, call) => {
    const request = readRateLimitRequest(message);
    if (request === undefined) return call.fail(statuses.malformed);
    const question = readQuestion(request);
    if ("code" in question) return call.fail(question);
    const decided = decide({ ...question, rawHeaders: [], canShowToken: false, quotaOnly: true });
    const { fields, body, verdict } = decided instanceof Promise ? await decided : decided;
    if (verdict === null) return call.fail(statuses.notAnAddress);
    const { outcome, policy, remaining, resetMs } = verdict.decision;
    const isOverLimit = outcome === "throttled";
    call.reply(
      rateLimitResponse({
        isOverLimit,
        limit: policy.limit,
        windowMs: policy.windowMs,
        policyName: policy.name,
        remaining,
        untilResetMs: Math.max(0, resetMs - nowMs()),
        fields: without(isOverLimit ? fields : clientFields(fields), notToAdd),
        body,
      }),
    );
  };
}
