// headgate's log lines, written by the logger of the app.
import type { FastifyBaseLogger } from "fastify";
import type { Clock } from "../core/clock.ts";
import type { LogLevel } from "../core/settings.ts";
import { createLog, type Logger } from "../telemetry/log.ts";

type AppLevel = "debug" | "info" | "warn" | "error";

/** The app's logger adds the time and its own bindings. */
export function createAppLog(log: FastifyBaseLogger, clock: Clock): Logger {
  const write = (line: string): void => {
    const { level, time: _time, msg, ...facts }: { level: AppLevel; time: unknown; msg: string } = JSON.parse(line);
    log[level](facts, msg);
  };
  return createLog({ level: levelOf(log), clock, destination: { write, flush: (done) => done?.() } });
}

/** An app without a logger has one without a level. */
function levelOf({ level }: { readonly level?: string }): LogLevel {
  switch (level) {
    case undefined:
    case "silent":
      return "silent";
    case "trace":
    case "debug":
      return "debug";
    case "warn":
      return "warn";
    case "error":
    case "fatal":
      return "error";
    default:
      return "info";
  }
}
