// Node's HTTP server, set so that it answers nothing by itself and bounds what it reads: what it would say would lack
// the fields. What happens to a request stands in traffic-server.ts.
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { Socket } from "node:net";
import { maxFields, maxHeadBytes } from "../../core/head-bounds.ts";
import type { RequestHandler } from "./mount.ts";

export interface NodeServerOptions {
  readonly headTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  /** How long nothing may move in either direction while a request is answered. */
  readonly stallTimeoutMs: number;
  readonly shouldUpgrade: (req: IncomingMessage) => boolean;
  readonly onRequest: RequestHandler;
  readonly onUpgrade: (req: IncomingMessage, head: Buffer) => void;
  readonly onConnect: (req: IncomingMessage) => void;
  readonly onClientError: (error: Error, socket: Socket) => void;
}

export function createNodeServer(options: NodeServerOptions): Server {
  const server = createServer({
    maxHeaderSize: maxHeadBytes,
    headersTimeout: options.headTimeoutMs,
    // The body's time is kept where the body is read: one total time would cut long uploads.
    requestTimeout: 0,
    keepAliveTimeout: options.keepAliveTimeoutMs,
    connectionsCheckingInterval: Math.min(500, options.headTimeoutMs),
    // Node would answer these by itself, without the fields.
    requireHostHeader: false,
    noDelay: true,
    shouldUpgradeCallback: options.shouldUpgrade,
  });
  server.maxHeadersCount = maxFields;
  // A client that stops reading would hold its upstream connection for ever.
  server.timeout = options.stallTimeoutMs;
  server.on("request", options.onRequest);
  server.on("checkContinue", options.onRequest);
  server.on("checkExpectation", options.onRequest);
  server.on("upgrade", (req, _stream, head) => options.onUpgrade(req, head));
  server.on("connect", options.onConnect);
  server.on("clientError", (error, stream) => options.onClientError(error, stream as Socket));
  return server;
}
