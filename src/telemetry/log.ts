// The log: JSON lines on standard output, written asynchronously, with credentials redacted and the level as a word. It
// reads only the clock it is given and says nothing about the host.
import { type Logger, pino, symbols } from "pino";
import { type Clock, systemClock } from "../core/clock.ts";
import { failureCode } from "../core/failure.ts";
import type { FileError, WatchEvents } from "../core/file-group.ts";
import type { LogLevel, LogTime, Settings } from "../core/settings.ts";
import { type LogDestination, openDestination } from "./destination.ts";
import { redactLine } from "./redaction.ts";

export type { Logger } from "pino";

interface LogOptions {
  readonly level: LogLevel;
  /** Default: unix. */
  readonly time?: LogTime;
  readonly clock?: Clock;
  /** Standard output unless given. */
  readonly destination?: Pick<LogDestination, "write" | "flush">;
}

const standardOutput = 1;

/** `log.flush(done)` writes the buffered lines; call it before the process exits. */
export function createLog(options: LogOptions): Logger {
  const { level, time = "unix", clock = systemClock, destination = openDestination({ fd: standardOutput }) } = options;
  return pino(
    {
      level,
      base: null,
      timestamp: timeWriter(time, clock),
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: errorFacts, error: errorFacts },
      hooks: { streamWrite: redactLine },
    },
    destination,
  );
}

/** Returns the member of a line that says when it was written, behind a comma. */
export type TimeWriter = () => string;

function timeWriter(time: LogTime, clock: Pick<Clock, "wallMs">): TimeWriter {
  if (time === "unix") return () => `,"time":${clock.wallMs()}`;
  return () => `,"time":"${new Date(clock.wallMs()).toISOString()}"`;
}

/** What writes the time of the next line, for lines that are not written by pino. */
export function timeWriterOf(log: Logger): TimeWriter {
  return Reflect.get(log, symbols.timeSym);
}

type LogSettings = Pick<Settings["log"], "level" | "time">;

/** Puts what a reload changes into force. The time is that of the children of the log, too. */
export function changeLog(log: Logger, before: LogSettings, next: LogSettings, clock: Pick<Clock, "wallMs">): void {
  if (next.level !== before.level) log.level = next.level;
  if (next.time !== before.time) Reflect.set(log, symbols.timeSym, timeWriter(next.time, clock));
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
