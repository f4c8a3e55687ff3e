// The admin API: a Fastify app of its own, behind the same connections as metrics and health. Decides who may call before it
// reads a body; the routes are in api-routes.ts.
import type { IncomingMessage, ServerResponse } from "node:http";
import AjvCompiler from "@fastify/ajv-compiler";
import type { TypeBoxTypeProvider } from "@fastify/type-provider-typebox";
import { type FastifyError, type FastifyReply, type FastifyRequest, fastify } from "fastify";
import { canonicalHost } from "../core/ip-address.ts";
import { type AdminAccess, decideAccess, Guesses } from "./access.ts";
import type { AdminIdentity } from "./admin-tokens.ts";
import { type ApiListener, type AuditLine, addRoutes } from "./api-routes.ts";
import type { AdminConnections } from "./connections.ts";
import type { ControlPlane } from "./control-plane.ts";
import { type AdminError, errors, errorsBody } from "./errors.ts";
import { EventStreams } from "./event-streams.ts";
import { createServer } from "./node-http.ts";
import { hasBody, isJson, jsonType, maxBodyBytes } from "./request-fields.ts";
import type { SignInCode } from "./sign-in-code.ts";
import { explainValidation } from "./validation-errors.ts";

export interface ApiOptions {
  readonly plane: ControlPlane;
  /** A reload replaces what it returns. */
  readonly access: () => AdminAccess;
  readonly nowMs: () => number;
  /** Returns a new id, for the answer and the log. */
  readonly newId: () => string;
  readonly version: string;
  /** Called for each write, and for each check that names a token, whatever came of it. */
  readonly onWrite: (line: AuditLine) => void;
  /** Called when a call fails. The client only gets a fixed text. */
  readonly onFailure: (error: Error) => void;
  /** Of a link to the console that was printed; by default there is none. */
  readonly signIn?: SignInCode | undefined;
}

export interface AdminApi {
  handle(request: IncomingMessage, response: ServerResponse): void;
  close(): Promise<void>;
}

/** Longer than the longest value, percent-encoded. */
const maxParameterLength = 4_096;

export async function openApi(options: ApiOptions, connections: AdminConnections): Promise<AdminApi> {
  const { plane, newId, nowMs, onFailure } = options;
  const guesses = new Guesses(nowMs);
  const streams = new EventStreams(plane);
  const identities = new WeakMap<IncomingMessage, AdminIdentity>();
  let handle: AdminApi["handle"] = () => {};
  let methodsOf: (url: string) => readonly string[] = () => [];
  const app = createFastify(newId, (onRequest) => {
    handle = onRequest;
  });
  app.addHook("onRequest", async (request, reply) => {
    reply.headers({ "cache-control": "no-store", "x-request-id": request.id });
    const reached = connections.reached(request.raw.socket);
    const decision = decideAccess(request.raw.rawHeaders, reached, options.access(), guesses);
    if (!decision.ok) return refuse(request, reply.headers(decision.fields), decision.error);
    const error = findProblem(request, decision.identity);
    if (error !== null) return refuse(request, reply, error);
    identities.set(request.raw, decision.identity);
    connections.moveToApi(request.raw.socket);
    return undefined;
  });
  app.setNotFoundHandler((request, reply) => {
    const methods = methodsOf(request.url);
    if (methods.length === 0) return answer(reply, errors.notFound);
    const errMsg = `Expected ${methods.join(", ")}.`;
    return answer(reply.header("allow", methods.join(", ")), { ...errors.methodNotAllowed, errMsg });
  });
  app.setErrorHandler((error: FastifyError, request, reply) => answerFailure(error, request, reply, onFailure));
  const peerOf = ({ raw }: FastifyRequest): string => connections.peerKey(raw.socket);
  const nobody: AdminIdentity = { name: "", role: "read" };
  const identity = ({ raw }: FastifyRequest): AdminIdentity => identities.get(raw) ?? nobody;
  const listener: ApiListener = {
    identity,
    caller: (request) => ({
      name: identity(request).name,
      peer: connections.isUnixSocket(request.raw.socket) ? null : canonicalHost(request.raw.socket.remoteAddress ?? ""),
    }),
    stream(request, reply) {
      connections.streams(request.raw.socket);
      reply.hijack();
      streams.open(reply.raw, peerOf(request), { "cache-control": "no-store", "x-request-id": request.id });
    },
    hasStreams: (request) => streams.hasRoom(peerOf(request)),
    peer: peerOf,
    // Also over the Unix socket, where no other call spends this budget or depends on it.
    spendGuess: (request) => guesses.checked(peerOf(request)),
    nowMs,
    onWrite: options.onWrite,
  };
  methodsOf = await addRoutes(app.withTypeProvider<TypeBoxTypeProvider>(), plane, listener, options.version);
  await app.ready();
  return {
    handle: (request, response) => handle(request, response),
    async close() {
      streams.endAll();
      await app.close();
    },
  };
}

/** `onHandler` gets what answers a request: another server reads them. */
function createFastify(newId: () => string, onHandler: (handle: AdminApi["handle"]) => void) {
  const app = fastify({
    serverFactory(onRequest) {
      onHandler(onRequest);
      return createServer();
    },
    bodyLimit: maxBodyBytes,
    return503OnClosing: false,
    genReqId: newId,
    routerOptions: { maxParamLength: maxParameterLength },
    // The answers are made by our own code. A second serializer would take memory for each of them.
    schemaController: { compilersFactory: { buildValidator, buildSerializer: () => () => JSON.stringify } },
    ajv: {
      customOptions: {
        removeAdditional: false,
        coerceTypes: false,
        useDefaults: false,
        allErrors: true,
        verbose: true,
        // A test checks the schemas. Compiling the schema of schemas would take 20 ms.
        validateSchema: false,
      },
    },
    frameworkErrors: (_error, request, reply) => answer(reply as FastifyReply, errors.badRequest, request.id),
  });
  app.removeContentTypeParser("text/plain");
  return app;
}

const buildAjv = AjvCompiler();

/** Compiles each schema when it is first used: compiling all of them would add 40 ms to each start. */
const buildValidator: typeof buildAjv = (externalSchemas, options) => {
  const compile = buildAjv(externalSchemas, options);
  return (route) => {
    let compiled: ReturnType<typeof compile> | null = null;
    const validate = ((data: unknown) => {
      compiled ??= compile(route);
      const isValid = compiled(data);
      validate.errors = compiled.errors ?? null;
      return isValid;
    }) as ReturnType<typeof compile>;
    return validate;
  };
};

/** What is wrong with a call of this caller, as far as its head tells. */
function findProblem(
  { method, headers, routeOptions, is404 }: FastifyRequest,
  { role }: AdminIdentity,
): AdminError | null {
  if (is404) return null;
  if (method === "GET" || method === "HEAD") return hasBody(headers) ? errors.bodyNotExpected : null;
  if (role === "read" && routeOptions.config.isRead !== true) return errors.readOnly;
  if (method === "DELETE") return hasBody(headers) ? errors.bodyNotExpected : null;
  return isJson(headers["content-type"]) ? null : errors.notJson;
}

/** Before the body is read. */
function refuse(request: FastifyRequest, reply: FastifyReply, error: AdminError): FastifyReply {
  if (hasBody(request.headers)) reply.header("connection", "close");
  return answer(reply, error);
}

function answer(reply: FastifyReply, { status, message, errMsg }: AdminError, id?: string): FastifyReply {
  // For a path that cannot be decoded, no hook runs.
  if (id !== undefined) reply.headers({ "cache-control": "no-store", "x-request-id": id });
  return reply
    .code(status)
    .type(jsonType)
    .send(errorsBody(message, [errMsg]));
}

function answerFailure(
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
  onFailure: ApiOptions["onFailure"],
): FastifyReply {
  if (error.validation !== undefined) {
    const details = explainValidation(partNames.get(error.validationContext ?? "") ?? "request", error.validation);
    return reply.code(400).type(jsonType).send(errorsBody(errors.badRequest.message, details));
  }
  const { statusCode = 500 } = error;
  // The rest of the body is not read.
  if (statusCode === 413) return answer(reply.header("connection", "close"), errors.bodyTooLarge);
  if (statusCode >= 400 && statusCode < 500) return refuse(request, reply, errors.brokenBody);
  onFailure(error);
  return answer(reply, errors.failed);
}

const partNames = new Map([
  ["body", "body"],
  ["params", "path"],
  ["querystring", "query"],
  ["headers", "headers"],
]);

declare module "fastify" {
  interface FastifyContextConfig {
    /** A call that changes nothing, although its method is not GET. */
    readonly isRead?: boolean;
  }
}
