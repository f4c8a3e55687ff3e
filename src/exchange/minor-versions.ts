// Has Node's HTTP parser accept HTTP/1.2 to HTTP/1.9, which are processed as HTTP/1.1 (RFC 9110, 2.5). By itself it
// refuses every version that it does not know, and Node has no option for this flag alone. So the parser of a connection
// is initialized a second time with the flag, as Node does when it uses a parser again. Unknown major versions pass it too;
// the code that gets the request refuses them. This is for our own servers only: it replaces the flags and the asynchronous
// resource of the parser, so the server of an app that uses the plugin would lose its `insecureHTTPParser`.
import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";

interface Parser {
  readonly constructor: { readonly REQUEST: number; readonly kLenientVersion: number };
  /** Removes the parser from the list of connections whose timeouts Node checks. */
  remove(): void;
  /** Also adds the parser to that list. */
  initialize(type: number, resource: object, maxHeadBytes: number, lenient: number, connections: object): void;
  onIncoming: (request: IncomingMessage, shouldKeepAlive: boolean) => number;
}

/** Call it after Node's server has begun to read the socket, and before it has read anything. */
export function acceptMinorVersions(server: Server, socket: Socket): void {
  const parser: unknown = Reflect.get(socket, "parser");
  const connections = connectionsOf(server);
  if (!isParser(parser) || connections === null) return;
  const { REQUEST, kLenientVersion } = parser.constructor;
  parser.remove();
  parser.initialize(REQUEST, {}, Number(Reflect.get(server, "maxHeaderSize") ?? 0), kLenientVersion, connections);
  const onIncoming = parser.onIncoming;
  parser.onIncoming = (request, shouldKeepAlive) => {
    if (request.httpVersionMajor === 1 && request.httpVersionMinor > 1) {
      request.httpVersionMinor = 1;
      request.httpVersion = "1.1";
    }
    return onIncoming(request, shouldKeepAlive);
  };
}

function connectionsOf(server: Server): object | null {
  const key = Object.getOwnPropertySymbols(server).find(({ description }) => description === "http.server.connections");
  const connections: unknown = key === undefined ? null : Reflect.get(server, key);
  return typeof connections === "object" ? connections : null;
}

function isParser(parser: unknown): parser is Parser {
  if (typeof parser !== "object" || parser === null) return false;
  const methods = ["remove", "initialize", "onIncoming"].map((name) => typeof Reflect.get(parser, name));
  return methods.every((type) => type === "function") && Reflect.has(parser.constructor, "kLenientVersion");
}
