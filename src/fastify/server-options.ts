// What the constructor of the app needs so that the answers which Fastify and Node give without running a hook carry the
// fields too: for targets that the router cannot read, bytes that are no request, and while the app closes.
import type { Socket } from "node:net";
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { keepAliveMs, maxHeadBytes } from "../core/http-bounds.ts";
import { errorBody, type LocalReply, localReplies } from "../core/local-reply.ts";
import { gates } from "./gate.ts";

/** `fastify({ ...serverOptions(), logger: true })`. What the app sets itself goes behind it. */
export function serverOptions({ maxHeaderBytes = maxHeadBytes }: { readonly maxHeaderBytes?: number } = {}) {
  return {
    frameworkErrors,
    clientErrorHandler,
    // While it closes, the app answers what is under way and what comes on open connections, and closes those.
    return503OnClosing: false,
    // Fastify turns Node's bound off.
    requestTimeout: 300_000,
    // Fastify's 72 s are shorter than proxies keep a connection.
    keepAliveTimeout: keepAliveMs,
    http: {
      // Node would answer these by itself, without the fields.
      requireHostHeader: false,
      headersTimeout: 10_000,
      connectionsCheckingInterval: 500,
      maxHeaderSize: maxHeaderBytes,
    },
  };
}

function frameworkErrors(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  const refusal = refusalOf(error);
  const gate = gates.get(request.server.server);
  if (gate !== undefined) gate.refuse(request, reply, refusal);
  else void reply.code(refusal.status).type("application/json; charset=utf-8").send(errorBody(refusal));
}

function refusalOf({ code }: FastifyError): LocalReply {
  switch (code) {
    case "FST_ERR_BAD_URL":
      return localReplies.malformed;
    case "FST_ERR_MAX_PARAM_LENGTH":
      return localReplies.targetTooLong;
    default:
      return localReplies.internal;
  }
}

function clientErrorHandler(this: FastifyInstance, error: Error, socket: Socket): void {
  const gate = gates.get(this.server);
  if (gate !== undefined) gate.refuseBytes(error, socket);
  else socket.destroy();
}
