// How long a connection to the upstream is kept without a request: less than the upstream keeps it, so that no request
// meets its close.

/** Node's own servers close after five seconds, and a request should not meet that. */
export const defaultIdleMs = 4_000;
/** An upstream may name a longer time (Keep-Alive: timeout=); a minute is long enough to be useful. */
const maxIdleMs = 60_000;

/** What a response's Keep-Alive asks for; undefined if it says nothing of it. */
export function idleMsOf(fields: readonly string[]): number | undefined {
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i]?.length !== 10 || fields[i]?.toLowerCase() !== "keep-alive") continue;
    const seconds = /(?:^|[\s,])timeout=(\d{1,9})/i.exec(fields[i + 1] ?? "")?.[1];
    // A second less than it says, for the way there.
    return seconds === undefined ? undefined : Math.min(maxIdleMs, Math.max(0, Number(seconds) * 1000 - 1000));
  }
  return undefined;
}
