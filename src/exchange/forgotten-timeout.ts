// Clears timeouts that Node leaves behind. Node marks an HTTP/2 session or stream as destroyed first, and then does not
// clear its timeout, because it is destroyed (closeSession, Http2Stream._destroy). The timer keeps the connection and all
// unread bytes in memory until it fires.
import type { ServerHttp2Session, ServerHttp2Stream } from "node:http2";

/** Clears the timeout of a session whose connection is closed, or of a closed stream. */
export function clearForgottenTimeout(closed: ServerHttp2Session | ServerHttp2Stream): void {
  // The symbol is Node's own. If its name changes, nothing is cleared, and test/transport/http2-close.test.ts fails.
  const timeout = Object.getOwnPropertySymbols(closed).find(({ description }) => description === "timeout");
  if (timeout !== undefined) clearTimeout((closed as unknown as Timeouts)[timeout] ?? undefined);
}

type Timeouts = Readonly<Record<symbol, NodeJS.Timeout | null>>;
