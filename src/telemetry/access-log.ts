// One line for each request, when it is over. Refusing must stay cheap under a flood: refusals that spend no quota are logged
// at most a few times a second for each client, and the others are counted. No query, no token and no field of the request
// is logged, except the id of a well-formed traceparent.
import { type Logger, symbols } from "pino";
import type { Clock } from "../core/clock.ts";
import type { ExchangeRecord } from "../core/exchange-record.ts";
import { isSuspicious, loggedMethod, loggedPath, redactLine } from "./redaction.ts";
import { Sampler } from "./sampler.ts";

export interface AccessLog {
  /** `target` is the request's target as it came. */
  record(exchange: ExchangeRecord, target: string): void;
  /** Reports the lines that were omitted in the last second. */
  close(): void;
  /** Lines omitted so far. */
  readonly omitted: number;
}

export interface AccessLogOptions {
  readonly clock: Clock;
  /** Default: true. */
  readonly enabled?: boolean;
  readonly refusedPerSecond?: number;
  readonly maxClients?: number;
}

export function createAccessLog(log: Logger, options: AccessLogOptions): AccessLog {
  const { clock, enabled = true, refusedPerSecond = 5, maxClients = 10_000 } = options;
  // Every line has the same shape. Written by hand it takes a fifth of the time that pino takes, and goes to the same place.
  const destination: { write(line: string): void } = Reflect.get(log, symbols.streamSym);
  const sampler = new Sampler({
    perPeriod: refusedPerSecond,
    maxKeys: maxClients,
    report: (client, omitted) => log.info({ client, omitted }, "refused requests left out"),
  });
  return {
    record(exchange, target) {
      if (!enabled) return;
      const level = exchange.status >= 500 ? "warn" : "info";
      if (!log.isLevelEnabled(level)) return;
      // What costs no quota (throttled, no route, not HTTP, OPTIONS *) can be repeated without end.
      const isFree = exchange.dispatchedMs === null && exchange.decision.outcome !== "admitted";
      if (isFree && !sampler.passes(exchange.client, exchange.endedMs)) return;
      const path = loggedPath(target);
      const line = lineOf(exchange, path, level, clock.wallMs());
      // A client can choose nothing else in the line.
      const mayHoldSecret = isSuspicious(path) || isSuspicious(exchange.id) || isSuspicious(exchange.method);
      destination.write(mayHoldSecret ? redactLine(line) : line);
    },
    close: () => sampler.close(),
    get omitted() {
      return sampler.omitted;
    },
  };
}

/** As pino would write it. */
function lineOf(exchange: ExchangeRecord, path: string, level: "info" | "warn", wallMs: number): string {
  const { startedMs, dispatchedMs, answeredMs, endedMs, decision } = exchange;
  const upstreamMs = dispatchedMs === null || answeredMs === null ? null : roundToMicros(answeredMs - dispatchedMs);
  return (
    `{"level":"${level}","time":${wallMs},"source":"${exchange.source}","id":${quoted(exchange.id)},` +
    `"traceId":${quoted(exchange.traceId)},"method":${quoted(loggedMethod(exchange.method))},` +
    `"route":${quoted(exchange.route)},"path":${quoted(path)},"status":${exchange.status},` +
    `"durationMs":${roundToMicros(endedMs - startedMs)},"upstreamMs":${upstreamMs},` +
    `"client":${quoted(exchange.client)},"policy":"${decision.policy.name}","decision":"${decision.outcome}",` +
    `"remaining":${decision.remaining},` +
    `"auth":"${exchange.auth}","problem":${quoted(exchange.problem)},"complete":${exchange.complete},` +
    `"msg":"request"}\n`
  );
}

/** JSON of a text. Nearly all texts are plain, and a test for that is cheaper than JSON.stringify. */
function quoted(text: string | null): string {
  if (text === null) return "null";
  return needsEscape.test(text) ? JSON.stringify(text) : `"${text}"`;
}

const needsEscape = /[^ !#-[\]-~]/;

/** Milliseconds, rounded to three decimals. */
function roundToMicros(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
