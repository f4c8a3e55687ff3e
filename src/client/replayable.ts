// Whether a request can be sent a second time. Bodies are named that can, rather than those that cannot: a body of a
// kind not known here is taken to be spent, because sending half of it again would be worse than reporting the 429.

/** To be asked after the first sending: only then does a Request tell whether its body is spent. */
export function isReplayable(input: Parameters<typeof fetch>[0], init: RequestInit | undefined): boolean {
  const body: unknown = init?.body;
  if (body !== undefined && body !== null) return isRepeatable(body);
  // A Request with any body counts as spent: whether it was made from a string or a stream can no longer be seen.
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
