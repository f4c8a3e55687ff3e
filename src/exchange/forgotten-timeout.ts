// Node marks a session or stream of HTTP/2 as destroyed before it clears its timeout, and does not clear the timeout of
// what is destroyed (closeSession, Http2Stream._destroy). Its timer then keeps the connection, with all bytes that were
// not read, until the timeout.
import type { ServerHttp2Session, ServerHttp2Stream } from "node:http2";

/** Clears the timeout of a session whose connection is closed, or of a stream that is. */
export function clearForgottenTimeout(closed: ServerHttp2Session | ServerHttp2Stream): void {
  // If the name changes, nothing is cleared, and the tests fail that look for what is left in memory.
  const timeout = Object.getOwnPropertySymbols(closed).find(({ description }) => description === "timeout");
  if (timeout !== undefined) clearTimeout((closed as unknown as Timeouts)[timeout] ?? undefined);
}

type Timeouts = Readonly<Record<symbol, NodeJS.Timeout | null>>;
