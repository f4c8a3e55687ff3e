// Logs the results of rereading a group of files, without their paths and contents.
import { failureCode } from "../core/failure.ts";
import type { FileError, WatchEvents } from "../core/file-group.ts";
import type { Logger } from "./log.ts";

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
