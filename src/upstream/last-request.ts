// Which requests are the last on their connection to the upstream. A server that does not expect a body, on a GET say,
// may take it for the next request, which nobody would have decided; one that sends a body in answer to a HEAD gives it
// to the next client. Behind a connection that ends there is no next one.

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
