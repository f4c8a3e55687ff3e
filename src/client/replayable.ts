// Decides whether a request can be sent again. Lists the kinds of body that can; every other kind counts as consumed,
// because sending half of it again would be worse than returning the 429.

/** To be called after the request was sent, because a Request only then knows whether its body is consumed. */
export function isReplayable(input: Parameters<typeof fetch>[0], init: RequestInit | undefined): boolean {
  const body: unknown = init?.body;
  if (body !== undefined && body !== null) return isRepeatable(body);
  // A Request with any body counts as consumed: it does not show whether it was made from a string or a stream.
  return !(input instanceof Request && input.bodyUsed);
}

function isRepeatable(body: unknown): boolean {
  return (
    typeof body === "string" ||
    body instanceof URLSearchParams ||
    body instanceof FormData ||
    body instanceof Blob ||
    body instanceof ArrayBuffer ||
    ArrayBuffer.isView(body)
  );
}
