// Fastify and @fastify/http-proxy as the frame the forwarding hangs in: one mount, our handler in it. By the time a
// request gets here everything about it has been decided, its route too, so the mount is shown a GET of "/" without
// fields: its own opinions of targets (`//v2/x`, `/v1/./b`), of bodies (415 for odd types, text/plain buffered) and of
// methods (404 for PROPFIND, an error for QUERY without a type) contradict what the gateway promises.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import httpProxy from "@fastify/http-proxy";
import fastify, { type FastifyInstance, type FastifyReply } from "fastify";
import { asError } from "../../core/failure.ts";

export type RequestHandler = (req: IncomingMessage, res: ServerResponse) => void;

export interface MountOptions {
  readonly upstreamUrl: string;
  /** Given Fastify's own handler, makes the server that calls it. */
  readonly createServer: (handler: RequestHandler) => Server;
  /** A request has come through the frame. */
  readonly onRequest: (req: IncomingMessage) => void;
  /** The frame itself failed; nothing has been answered. */
  readonly onFailure: (req: IncomingMessage, error: Error) => void;
}

export async function createMount(options: MountOptions): Promise<FastifyInstance> {
  const fail = (error: Error, req: IncomingMessage, reply: FastifyReply): void => {
    reply.hijack();
    options.onFailure(req, error);
  };
  const app = fastify({
    serverFactory: (handler) => options.createServer(handler),
    // The server has a listener of ours.
    clientErrorHandler: () => {},
    // Draining is told by `Connection: close`; a request that still arrives is still served.
    return503OnClosing: false,
    frameworkErrors: (error, request, reply) => fail(error, request.raw, reply),
  });
  app.setErrorHandler((error: Error, request, reply) => fail(error, request.raw, reply));
  app.setNotFoundHandler((request, reply) => fail(new Error("no mount for a routed request"), request.raw, reply));
  await app.register(httpProxy, {
    upstream: options.upstreamUrl,
    prefix: "/",
    routes: ["/"],
    httpMethods: ["GET"],
    // Before its handler, which would read the target once more and hold it against the upstream's: a few microseconds
    // for each request, about a target that is always the same.
    preHandler: (request, reply, _done) => {
      reply.hijack();
      try {
        options.onRequest(request.raw);
      } catch (error) {
        // Fastify tells nobody of an error of a reply that is not its own any more.
        options.onFailure(request.raw, asError(error));
      }
    },
  });
  await app.ready();
  return app;
}
