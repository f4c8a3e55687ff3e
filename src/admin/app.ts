// Answers the requests to the admin listener: metrics and health, and hands calls of the API and the console on. What is answered here
// changes nothing, shows no client and reads no body. Its answers are not cached, and its errors have the format of the
// gateway's own. All code is loaded before it listens: loading it for a request would delay the traffic.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import type { MonotonicClock } from "../core/clock.ts";
import { keepAliveMs, maxHeadBytes } from "../core/http-bounds.ts";
import { errorBody } from "../core/local-reply.ts";
import type { Certificate } from "../core/settings.ts";
import type { AdminApi, ApiOptions } from "./api.ts";
import { Compressor } from "./compressor.ts";
import { type AdminConnections, stopParsingWhen } from "./connections.ts";
import { ConsoleFiles } from "./console-files.ts";
import type { Health } from "./control-plane.ts";
import { type AdminError, errors, rawAnswer } from "./errors.ts";
import { createServer } from "./node-http.ts";
import { hasBody, jsonType, wantsGzip, wantsOpenMetrics } from "./request-fields.ts";
import { SharedAnswers } from "./turns.ts";

interface MetricsText {
  readonly contentType: string;
  readonly body: string;
}

export interface AdminAppOptions {
  readonly clock: MonotonicClock;
  readonly metrics: (openMetrics: boolean) => Promise<MetricsText>;
  readonly maxScrapePauseMs?: number | undefined;
  readonly health: () => Health;
  /** False: nothing is done any more, and a restart is needed. */
  readonly isAlive: () => boolean;
  /** Called when a scrape fails. The client only gets a fixed text. */
  readonly onError: (error: Error) => void;
  /** Null: there is no API. */
  readonly api: ApiOptions | null;
  /** The path of the Unix socket; null: there is none. */
  readonly socket: string | null;
  /** Returns the certificate in use; null: connections over TCP are plain. */
  readonly certificate: (() => Certificate) | null;
}

export interface AdminApp {
  /** Takes a paused socket, and reads it. */
  serve(socket: Socket): void;
  /** Call it before a tokens file is in force. */
  openApi(): Promise<void>;
  close(): Promise<void>;
}

export async function openAdminApp(options: AdminAppOptions, connections: AdminConnections): Promise<AdminApp> {
  const { certificate } = options;
  const handshakes = certificate && new (await import("./handshakes.ts")).AdminHandshakes(certificate);
  const api = options.api && optionalApi(options.api, connections);
  const page = options.api && new ConsoleFiles(options.api, connections);
  const app = createApp(connections, (request, response) => {
    return api?.handle(request, response) === true || page?.handle(request, response) === true;
  });
  serveMetrics(app, options);
  serveHealth(app, options);
  answerTheRest(app, options.onError);
  await app.ready();
  if (options.socket !== null || options.api?.access().tokens != null) await api?.open();
  const server = app.server as Server;
  // Another server listens. Node enforces the timeouts of heads and requests only after this event.
  server.emit("listening");
  const read = (socket: Socket): void => {
    server.emit("connection", socket);
    stopParsingWhen(socket, () => socket.destroyed);
    socket.resume();
  };
  return {
    serve(socket) {
      if (handshakes === null || connections.isUnixSocket(socket)) {
        read(socket);
        return;
      }
      handshakes.begin(socket, (secure) => {
        connections.secured(socket, secure);
        read(secure);
      });
    },
    openApi: async () => api?.open(),
    async close() {
      await api?.close();
      await app.close();
      // Only stops the timer of node:http.
      server.close();
    },
  };
}

type AdminHandler = (request: IncomingMessage, response: ServerResponse) => boolean;

/**
 * Serves the API where it exists: over TCP while there is a tokens file, and on the Unix socket. Loads it before the first call
 * can arrive, because this stops the event loop for tens of milliseconds. `handle` returns false for a request that is no call of it.
 */
function optionalApi(options: ApiOptions, connections: AdminConnections) {
  let api: AdminApi | null = null;
  const exists = ({ socket }: IncomingMessage): boolean =>
    connections.isUnixSocket(socket) || options.access().tokens !== null;
  const handle: AdminHandler = (request, response) => {
    // Other spellings of the path are no calls of the API.
    if (api === null || !/^\/api(?:[/?]|$)/.test(request.url ?? "") || !exists(request)) return false;
    api.handle(request, response);
    return true;
  };
  return {
    handle,
    async open() {
      const { openApi } = await import("./api.ts");
      api ??= await openApi(options, connections);
    },
    close: async () => api?.close(),
  };
}

const inactiveTimeoutMs = 30_000;

const serverOptions = {
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  keepAliveTimeout: keepAliveMs,
  // By default Node checks these timeouts only every 30 s.
  connectionsCheckingInterval: 1_000,
  // For a console on localhost, browsers send the cookies of all servers there.
  maxHeaderSize: maxHeadBytes,
  // Node would answer a missing Host without a body; see answerTheRest.
  requireHostHeader: false,
} as const;

/** `handle` returns false for a request that is answered here. */
function createApp(connections: AdminConnections, handle: AdminHandler): FastifyInstance {
  return fastify({
    serverFactory(onRequest) {
      const server = createServer(serverOptions);
      server.setTimeout(inactiveTimeoutMs);
      server.on("request", (request, response) => {
        if (!connections.begin(request.socket, response)) return;
        if (!handle(request, response)) onRequest(request, response);
      });
      return server;
    },
    bodyLimit: 1_024,
    // No route has a schema, so no compiler is loaded.
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
    return503OnClosing: false,
    frameworkErrors: (_error, _request, reply) => answer(reply as FastifyReply, errors.badRequest),
    clientErrorHandler: (error, socket) => refuse(error, socket),
  });
}

function noSchemas(): never {
  throw new Error("these routes have no schemas");
}

function serveMetrics(app: FastifyInstance, { metrics, clock, maxScrapePauseMs }: AdminAppOptions): void {
  const plain = new SharedAnswers(() => metrics(false), clock, maxScrapePauseMs);
  const openMetrics = new SharedAnswers(() => metrics(true), clock, maxScrapePauseMs);
  const compressor = new Compressor();
  app.get("/metrics", async (request, reply) => {
    const scrapes = wantsOpenMetrics(request.headers.accept) ? openMetrics : plain;
    const { contentType, body } = await scrapes.rendered();
    const sent = wantsGzip(request.headers["accept-encoding"]) ? await compressor.gzip(body) : body;
    if (sent !== body) reply.header("content-encoding", "gzip");
    return uncached(reply).header("vary", "accept, accept-encoding").type(contentType).send(sent);
  });
}

function serveHealth(app: FastifyInstance, { health, isAlive }: AdminAppOptions): void {
  // Liveness means only that an event loop runs: what a restart cannot repair must not cause one.
  app.get("/livez", async (_request, reply) => {
    const status = isAlive() ? "alive" : "stuck";
    return uncached(reply)
      .code(status === "alive" ? 200 : 503)
      .type(jsonType)
      .send(JSON.stringify({ status }));
  });
  app.get("/readyz", async (_request, reply) => {
    const { status, upstream, store, rules, tokens } = health();
    const upstreamShown = { state: upstream.state, reason: upstream.reason };
    const body = { status, upstream: upstreamShown, ...(tokens === null ? {} : { tokens }) };
    return uncached(reply)
      .code(status === "ready" ? 200 : 503)
      .type(jsonType)
      .send(
        JSON.stringify({
          ...body,
          ...(store && { store: { state: store.state, shards: store.shards, replicas: store.replicas } }),
          ...(rules && { rules: { state: rules.state } }),
        }),
      );
  });
}

function answerTheRest(app: FastifyInstance, onError: AdminAppOptions["onError"]): void {
  const paths = new Set(["/metrics", "/livez", "/readyz"]);
  // A hook of this stage runs before the body is parsed, and no body is wanted.
  app.addHook("onRequest", async (request: FastifyRequest, reply) => {
    const { host } = request.headers;
    // The body is not read: each of its chunks would cost more than the request.
    if (hasBody(request.headers)) reply.header("connection", "close");
    if (host === undefined && request.raw.httpVersion === "1.1") return answer(reply, errors.badRequest);
    if (request.method === "GET" || request.method === "HEAD") return;
    const known = paths.has(request.url.split("?", 1)[0] as string);
    if (known) reply.header("allow", "GET, HEAD");
    return answer(reply.header("connection", "close"), known ? errors.methodNotAllowed : errors.notFound);
  });
  app.setNotFoundHandler((_request, reply) => answer(reply, errors.notFound));
  app.setErrorHandler((error: FastifyError, _request, reply) => {
    onError(error);
    return answer(reply, errors.internal);
  });
}

function answer(reply: FastifyReply, error: AdminError): FastifyReply {
  return uncached(reply).code(error.status).type(jsonType).send(errorBody(error));
}

// Not a hook, because fastify runs none for a path that it cannot decode.
function uncached(reply: FastifyReply): FastifyReply {
  return reply.headers({ "cache-control": "no-store", "x-content-type-options": "nosniff" });
}

/** Answers bytes that the parser refused. */
function refuse(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  if (error.code === "ERR_HTTP_REQUEST_TIMEOUT") socket.end(rawAnswer(errors.requestTimeout));
  else if (error.code === "HPE_HEADER_OVERFLOW") socket.end(rawAnswer(errors.headTooLarge));
  else socket.end(rawAnswer(errors.badRequest));
}
