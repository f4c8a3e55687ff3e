// Mounts the upstream by @fastify/http-proxy: what no route of the app takes goes there. What its stock settings get wrong
// is put right here: retries, targets and headers that are rewritten, unverified TLS, bodies that are parsed, errors that
// name addresses. Its WebSocket stays off, since it tells the client of success before the upstream is asked.
import type { IncomingHttpHeaders } from "node:http";
import httpProxy, { type FastifyHttpProxyOptions } from "@fastify/http-proxy";
import type { FastifyInstance } from "fastify";
import type { OnShareExceeded } from "../../core/client-share.ts";
import type { Files } from "../../core/file-group.ts";
import { knownMethods, refusedMethods } from "../../core/method.ts";
import { type ConnectionFigures, type UpstreamHostSettings, upstreamHostOf } from "../../core/upstream.ts";
import type { Logger } from "../../telemetry/log.ts";
import { FastifyTransport } from "../fastify-transport.ts";
import type { PluginSettings } from "../plugin-options.ts";
import { openPool } from "./pool.ts";
import { PoolPlaces } from "./pool-places.ts";
import { ProxiedRequest, type ProxyOptions } from "./proxied-request.ts";

export interface UpstreamProxy {
  figures(): ConnectionFigures;
  mount(app: FastifyInstance, given: Pick<ProxyOptions, "onError" | "onAnswer" | "nowMs" | "fieldNames">): void;
  close(): void;
}

/** Rejects with a FilesError. */
export async function openProxy(
  settings: PluginSettings,
  upstream: UpstreamHostSettings,
  files: Files,
  log: Logger,
  onShareExceeded: OnShareExceeded,
): Promise<UpstreamProxy> {
  const { pool, close } = await openPool(upstream, files, log);
  const { maxConnections: total, connectTimeoutMs: timeoutMs, keepAliveMs } = upstream;
  const places = new PoolPlaces({ total, timeoutMs, onShareExceeded });
  const { origin, host: address } = new URL(upstream.url);
  const { maxBodyBytes, timeouts, clientAddress } = settings;
  const rate = { bodyTimeoutMs: timeouts.bodyMs, bodyBytesPerSecond: timeouts.bodyRate };
  const bounds = { maxBodyBytes, ...rate, forwardingHeader: clientAddress.header };
  return {
    figures: () => ({ active: places.active, idle: pool.stats.free, waiting: places.waiting }),
    mount(app, given) {
      const ofUpstream = {
        ...upstreamHostOf(upstream.url, upstream.hostHeader),
        address,
        keepsNone: keepAliveMs === 0,
      };
      return mount(app, origin, { ...given, ...bounds, ...ofUpstream, pool, places });
    },
    close() {
      for (const waiter of places.close()) waiter.onNoPlace();
      close();
    },
  };
}

function mount(app: FastifyInstance, origin: string, options: ProxyOptions): void {
  const known = new Set<string>(app.supportedMethods);
  const methods = [...knownMethods].filter((method) => !refusedMethods.has(method));
  for (const method of methods) if (!known.has(method)) app.addHttpMethod(method, { hasBody: true });
  app.register(async (scope) => {
    // Whatever type a body says it has, it goes on as it is: Fastify parses no body of this type, and refuses none.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", (_request, payload, done) => done(null, payload));
    scope.addHook("onRequest", async (request) => {
      request.headers = { "content-type": "application/octet-stream" };
    });
    scope.addHook("preValidation", async (request) => {
      request.headers = {};
    });
    await scope.register(httpProxy, proxyOptions(origin, methods, options));
  });
}

function proxyOptions(origin: string, httpMethods: string[], options: ProxyOptions): FastifyHttpProxyOptions {
  return {
    upstream: origin,
    routes: ["/*"],
    httpMethods,
    handler: (_request, reply, dest, hooks) => {
      const transport = FastifyTransport.of(reply.raw);
      const exchange = transport?.exchange ?? null;
      // Outside of all routes there is nothing that the app does not have itself.
      if (transport === undefined || exchange === null || exchange.route === null) {
        reply.callNotFound();
        return;
      }
      const request = new ProxiedRequest(exchange, transport, options);
      return reply.from(dest, {
        ...hooks,
        rewriteRequestHeaders: () => ({ [ofHeaders]: request }) as object as IncomingHttpHeaders,
        onResponse: () => request.pass(),
      });
    },
    proxyPayloads: false,
    // The target was judged before and is sent as it came: it is not for http-proxy to read.
    preRewrite: () => "/",
    internalRewriteLocationHeader: false,
    disableRequestLogging: true,
    retryMethods: [],
    undici: { request: sendProxied } as unknown as NonNullable<FastifyHttpProxyOptions["undici"]>,
    // Only for a status that is none, which has been answered by then.
    replyOptions: { onError: () => {} },
  };
}

/** In the place of the headers, which are all that reply-from hands on of a request. */
const ofHeaders = Symbol("headgate proxied request");

type SendCallback = (error: null, response: { statusCode: number; headers: object; body: unknown }) => void;

/** In the place of undici's `request`. Errors are answered here and not handed on, since reply-from would log each. */
function sendProxied({ headers }: { headers: { [ofHeaders]?: ProxiedRequest } }, answer: SendCallback): void {
  headers[ofHeaders]?.start((statusCode, body) => answer(null, { statusCode, headers: {}, body }));
}
