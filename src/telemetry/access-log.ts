// One line for each request, when it is over. Refusing must stay cheap under a flood: of the requests throttled, a few
// a second are logged for each client and the rest are counted. No query, no token, no field of the request is logged.
import type { Logger } from "pino";
import type { Exchange } from "../core/exchange.ts";
import { loggedPath } from "./redaction.ts";
import { Sampler } from "./sampler.ts";

export interface AccessLog {
  /** `target` is the request's target as it came. */
  record(exchange: Exchange, target: string): void;
  /** Reports what was left out in the last second. */
  close(): void;
  /** Lines left out so far. */
  readonly omitted: number;
}

export interface AccessLogOptions {
  readonly enabled: boolean;
  readonly refusedPerSecond?: number;
  readonly maxClients?: number;
}

export function createAccessLog(log: Logger, options: AccessLogOptions): AccessLog {
  const { enabled, refusedPerSecond = 5, maxClients = 10_000 } = options;
  const sampler = new Sampler({
    perSecond: refusedPerSecond,
    maxKeys: maxClients,
    report: (client, omitted) => log.info({ client, omitted }, "refused requests left out"),
  });
  return {
    record(exchange, target) {
      if (!enabled) return;
      const level = exchange.status >= 500 ? "warn" : "info";
      if (!log.isLevelEnabled(level)) return;
      // A refusal that costs the client nothing can be repeated without end: throttled, under no route, not HTTP.
      const isFree = exchange.problem !== null && exchange.decision.outcome !== "admitted";
      if (isFree && !sampler.passes(exchange.client, exchange.endedMs)) return;
      log[level](line(exchange, target), "request");
    },
    close: () => sampler.close(),
    get omitted() {
      return sampler.omitted;
    },
  };
}

function line(exchange: Exchange, target: string) {
  const { startedMs, dispatchedMs, answeredMs, endedMs, decision } = exchange;
  return {
    id: exchange.id,
    method: exchange.method,
    route: exchange.route,
    path: loggedPath(target),
    status: exchange.status,
    durationMs: roundToMicros(endedMs - startedMs),
    upstreamMs: dispatchedMs === null || answeredMs === null ? null : roundToMicros(answeredMs - dispatchedMs),
    client: exchange.client,
    decision: decision.outcome,
    remaining: decision.remaining,
    auth: exchange.auth,
    problem: exchange.problem,
    complete: exchange.complete,
  };
}

/** Milliseconds, rounded to three decimals. */
function roundToMicros(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
