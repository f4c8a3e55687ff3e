// Decides which requests are the last on their connection to the upstream. A server that does not expect a body, on a GET
// for example, may read it as the next request, which was never checked. A server that sends a body in response to a HEAD
// would have it read as the next response. If the connection is closed, neither can happen.

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

export function endsConnection(method: string, hasBody: boolean): boolean {
  return method === "HEAD" || (hasBody && !methodsWithBody.has(method));
}
