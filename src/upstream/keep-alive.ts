// How long an idle connection to the upstream is kept: less than the upstream keeps it, so that no request is sent while
// the upstream closes it.

/** Node's servers close after five seconds. */
export const defaultIdleMs = 4_000;
/** The bound on what an upstream names in Keep-Alive: timeout=. */
const maxIdleMs = 60_000;

/** Returns how long a connection is kept that the upstream keeps for so long: one second less, for the time on the way. */
export function idleMsOf(keepAliveSeconds: number): number {
  return Math.min(maxIdleMs, Math.max(0, keepAliveSeconds * 1000 - 1000));
}
