// The log: JSON lines on standard output, written asynchronously, with credentials redacted and the level as a word. It
// reads only the clock it is given and says nothing about the host.
import { type Logger, pino } from "pino";
import { type Clock, systemClock } from "../core/clock.ts";
import { failureCode } from "../core/failure.ts";
import type { FileError, WatchEvents } from "../core/file-group.ts";
import type { LogLevel } from "../core/settings.ts";
import { type LogDestination, openDestination } from "./destination.ts";
import { redactLine } from "./redaction.ts";

export type { Logger } from "pino";

interface LogOptions {
  readonly level: LogLevel;
  readonly clock?: Clock;
  /** Standard output unless given. */
  readonly destination?: Pick<LogDestination, "write" | "flush">;
}

const standardOutput = 1;

/** `log.flush(done)` writes the buffered lines; call it before the process exits. */
export function createLog(options: LogOptions): Logger {
  const { level, clock = systemClock, destination = openDestination({ fd: standardOutput }) } = options;
  return pino(
    {
      level,
      base: null,
      timestamp: () => `,"time":${clock.wallMs()}`,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorFacts, error: errorFacts },
      hooks: { streamWrite: redactLine },
    },
    destination,
  );
}

/** The name, message, code and stack of an error and of its causes. Other properties may hold requests and fields. */
function errorFacts(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const { name, message, stack, cause } = error;
  const code = "code" in error ? error.code : undefined;
  return { type: name, message, code, stack, ...(cause === undefined ? {} : { cause: errorFacts(cause) }) };
}

// The results of rereading a group of files, without their paths and contents.

/** `what` names the group, such as "tokens file"; `facts` go into the line about a new version. */
export function createFileLog<T>(log: Logger, what: string, facts: (value: T) => object = () => ({})): WatchEvents<T> {
  return {
    onReload: (value) => log.info(facts(value), `${what} reread`),
    onError: (errors) =>
      log.error({ errors: errors.map(shown) }, `${what} not usable, the last good version stays in use`),
  };
}

/** Not the error itself: its message holds the path. */
function shown(error: FileError): object {
  if (error.kind === "unreadable") return { key: error.key, found: failureCode(error.cause) };
  const { key, line, found, expected } = error;
  return { key, line, found, expected };
}
