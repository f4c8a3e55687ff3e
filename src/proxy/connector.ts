// How connections to the upstream are opened: as undici does, but a reset is always told as one. undici takes a reset
// in the middle of a response that ends its connection for the response's end: half a body would end like a whole one,
// and if the client was being waited for, an assertion ends the process.
import { buildConnector } from "undici";

/** In place of ECONNRESET, which undici gives a meaning of its own. */
export const upstreamReset = "UPSTREAM_RESET";

export function createConnector(settings: buildConnector.BuildOptions): buildConnector.connector {
  const connect = buildConnector(settings);
  return (options, callback) =>
    connect(options, (...result) => {
      // Before undici's own listener, which is added by the callback.
      result[1]?.on("error", renameReset);
      callback(...result);
    });
}

function renameReset(error: NodeJS.ErrnoException): void {
  if (error.code === "ECONNRESET") error.code = upstreamReset;
}
