// How long an idle connection to the upstream is kept: less than the upstream keeps it, so that no request is sent while
// the upstream closes it.

/** Node's servers close after five seconds. */
export const defaultIdleMs = 4_000;
/** The bound on what an upstream names in Keep-Alive: timeout=. */
const maxIdleMs = 60_000;

/** Returns the idle time that the value of a Keep-Alive allows; undefined if it names none. */
export function idleMsOf(value: string): number | undefined {
  const seconds = /(?:^|[\s,])timeout=(\d{1,9})/i.exec(value)?.[1];
  // One second less, for the time on the way.
  return seconds === undefined ? undefined : Math.min(maxIdleMs, Math.max(0, Number(seconds) * 1000 - 1000));
}
