// Stops Node's HTTP parser in the middle of a read. One read can contain thousands of pipelined requests, and each
// costs Node 10 µs even if it is dropped. Pausing the parser does not help: it finishes the read first. Therefore the
// last head that should be read is treated as an upgrade, after which the parser stops.
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";

/** What Node returns to llhttp for the head of an upgrade. */
const isUpgrade = 2;

interface Parser {
  /** Called with each head, before the event "request". Node sets it for each connection. */
  onIncoming: (request: IncomingMessage, shouldKeepAlive: boolean) => number;
}

/** Call it after Node's server has begun to read the socket. `isOver` is called with each head. */
export function stopParsingWhen(socket: Socket, isOver: () => boolean): void {
  const parser: unknown = Reflect.get(socket, "parser");
  if (!isParser(parser)) return;
  const onIncoming = parser.onIncoming;
  parser.onIncoming = (request, shouldKeepAlive) => {
    if (!isOver()) return onIncoming(request, shouldKeepAlive);
    // Otherwise Node would release the socket.
    request.upgrade = false;
    return isUpgrade;
  };
}

function isParser(parser: unknown): parser is Parser {
  return (
    typeof parser === "object" && parser !== null && "onIncoming" in parser && typeof parser.onIncoming === "function"
  );
}

declare module "node:http" {
  interface IncomingMessage {
    upgrade?: boolean;
  }
}
