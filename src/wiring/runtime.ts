// Makes the runtimes: one for the traffic, and two for the checks of an ingress. All share the counters and the
// telemetry.
import type { Authenticator } from "../core/authenticator.ts";
import type { ClientAddressRules } from "../core/client-address.ts";
import type { Clock } from "../core/clock.ts";
import type { Limiter, QuotaLimiter, RefusalBudget } from "../core/limiter.ts";
import type { RequestRules } from "../core/request-head.ts";
import type { ResponseFields } from "../core/response-fields.ts";
import type { Runtime } from "../exchange/exchange.ts";
import { admitCheck } from "../ext-auth/check.ts";
import { createDecideQuota, type QuotaHead } from "../ext-auth/quota-decide.ts";
import { createDecide } from "../pipeline.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { sentRequestId, trustedRequestId } from "../upstream/request-fields.ts";
import { createRequestIds } from "./request-ids.ts";

export interface RuntimeParts {
  readonly rules: RequestRules;
  readonly limiter: Limiter;
  readonly authenticator: Authenticator;
  readonly refusals: RefusalBudget;
  readonly fields: ResponseFields;
  readonly telemetry: Telemetry;
  readonly clock: Clock;
  readonly log: Logger;
  readonly forward: Runtime["forward"];
  /** Whether each request has a line in the log. */
  readonly accessLog: boolean;
}

export function createRuntime(parts: RuntimeParts): Runtime {
  const { limiter, refusals, fields, telemetry, clock, log, forward, accessLog } = parts;
  const newId = createRequestIds();
  return {
    source: "proxy",
    fields,
    nowMs: clock.monotonicMs,
    requestId: ({ rawHeaders, peer }) => trustedRequestId(rawHeaders, peer) ?? newId(),
    decide: createDecide({ ...parts, nowMs: clock.monotonicMs }),
    peekQuota: ({ key, counterKey }) => limiter.peek(key, counterKey, clock.monotonicMs()),
    observeQuota: ({ key, counterKey }) => limiter.observe(key, counterKey, clock.monotonicMs()),
    refreshQuota: (decision) => limiter.refresh(decision, clock.monotonicMs()),
    mayReject(client) {
      const nowMs = clock.monotonicMs();
      if (refusals.isSpent(client, nowMs)) return false;
      refusals.spend(client, nowMs);
      return true;
    },
    forward,
    onEnd: accessLog ? telemetry.finish : telemetry.finishUnlogged,
    onFailure: (error) => log.error({ err: error }, "internal error"),
  };
}

export interface CheckRuntimes {
  readonly clientAddress: ClientAddressRules;
  readonly runtime: Runtime;
  readonly quotaRuntime: Runtime;
}

export interface CheckParts extends RuntimeParts {
  readonly quotas: QuotaLimiter;
}

export function createCheckRuntimes(parts: CheckParts): CheckRuntimes {
  // An ingress names its peer in X-Forwarded-For, and forwards a client's own Forwarded, which must be ignored.
  const clientAddress: ClientAddressRules = { ...parts.rules.clientAddress, header: "x-forwarded-for" };
  const rules = { ...parts.rules, clientAddress };
  const newId = createRequestIds();
  const runtime: Runtime = {
    ...createRuntime({ ...parts, rules, forward: admitCheck }),
    source: "ext-auth",
    // The upstream does not see this id, so one that the ingress forwards from a client does no harm.
    requestId: ({ rawHeaders }) => sentRequestId(rawHeaders) ?? newId(),
  };
  const decideQuota = createDecideQuota({ ...parts, rules, limiter: parts.quotas, nowMs: parts.clock.monotonicMs });
  return {
    clientAddress,
    runtime,
    // Only `Checks.beginQuota` begins exchanges with it.
    quotaRuntime: { ...runtime, decide: (head, nowMs) => decideQuota(head as QuotaHead, nowMs) },
  };
}
