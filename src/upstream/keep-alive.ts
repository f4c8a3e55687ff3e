// How long a connection to the upstream is kept. An idle one is closed before the upstream closes it, so that no request is
// sent on a connection that is being closed. A connection is not used again after a request that a server may misread.

/** Node's servers close after five seconds. */
export const defaultIdleMs = 4_000;
/** The bound on what an upstream names in Keep-Alive: timeout=. */
const maxIdleMs = 60_000;

/** `keepAliveSeconds`: how long the upstream keeps an idle connection. Returns one second less, for the time on the network. */
export function idleMsOf(keepAliveSeconds: number): number {
  return Math.min(maxIdleMs, Math.max(0, keepAliveSeconds * 1000 - 1000));
}

const methodsWithBody: ReadonlySet<string> = new Set([
  "POST",
  "PUT",
  "PATCH",
  "QUERY",
  "PROPFIND",
  "PROPPATCH",
  "REPORT",
  "SEARCH",
  "LOCK",
]);

/**
 * Returns whether a request is the last on its connection. A server that does not expect a body, on a GET for example, may
 * read it as the next request, which was never checked. A server that sends a body in response to a HEAD would have it read
 * as the next response. If the connection is closed, neither can happen.
 */
export function endsConnection(method: string, hasBody: boolean): boolean {
  return method === "HEAD" || (hasBody && !methodsWithBody.has(method));
}
