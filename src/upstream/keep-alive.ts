// How long an idle connection to the upstream is kept: less than the upstream keeps it, so that no request is sent while
// the upstream closes it.
import { type HeaderList, headerValue } from "../core/header-list.ts";

/** Node's servers close after five seconds. */
export const defaultIdleMs = 4_000;
/** The bound on what an upstream names in Keep-Alive: timeout=. */
const maxIdleMs = 60_000;

/** The idle time that a response's Keep-Alive allows; undefined if it has none. */
export function idleMsOf(fields: HeaderList): number | undefined {
  const value = headerValue(fields, "keep-alive");
  const seconds = value === undefined ? undefined : /(?:^|[\s,])timeout=(\d{1,9})/i.exec(value)?.[1];
  // One second less, for the time on the way.
  return seconds === undefined ? undefined : Math.min(maxIdleMs, Math.max(0, Number(seconds) * 1000 - 1000));
}
