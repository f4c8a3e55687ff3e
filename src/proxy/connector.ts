// How connections to the upstream are opened: as undici does, but a reset is always told as one, and a connection that
// was broken off leaves none behind. undici takes a reset in the middle of a response that ends its connection for the
// response's end: half a body would end like a whole one, and if the client was being waited for, an assertion ends the
// process. And it keeps an aborted request in its queue until there is a new connection, which it opens for that alone.
import { buildConnector } from "undici";

/** In place of ECONNRESET, which undici gives a meaning of its own. */
export const upstreamReset = "UPSTREAM_RESET";

/** In place of UND_ERR_INFO, after which undici would take the broken request for one that is still to be sent. */
const brokenOff = "BROKEN_OFF";

export function createConnector(settings: buildConnector.BuildOptions): buildConnector.connector {
  const connect = buildConnector(settings);
  return (options, callback) =>
    connect(options, (...result) => {
      // Before undici's own listener, which is added by the callback.
      result[1]?.on("error", rename);
      callback(...result);
    });
}

function rename(error: NodeJS.ErrnoException): void {
  if (error.code === "ECONNRESET") error.code = upstreamReset;
  // undici's own words; what else it calls by that code (an idle connection closed in time) is left alone.
  if (error.code === "UND_ERR_INFO" && error.message === "aborted") error.code = brokenOff;
}
