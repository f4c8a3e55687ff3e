// The reference finance API over HTTP: node:http around the routes. A request body is read up to a bound and discarded. An
// internal error is answered without details and reported to the caller of startFinanceBackend.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { DatabaseSync } from "node:sqlite";
import { type ApiAnswer, bodyTooLarge, internalError, malformedRequest, maxBodyBytes } from "./answers.ts";
import { drain, refuse } from "./bytes.ts";
import { Connections } from "./connections.ts";
import { openDatabase } from "./database.ts";
import { type Api, createApi } from "./routes.ts";

export interface FinanceBackendOptions {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** A file, which is created if it does not exist; null keeps the data in memory. */
  readonly database: string | null;
  /** Called for every request that was answered with 500. */
  readonly onFailure?: (error: unknown) => void;
}

export interface FinanceBackend {
  /** The address that it listens on. */
  readonly host: string;
  readonly port: number;
  readonly url: string;
  /** Stops listening, ends idle connections, waits for busy ones (at most five seconds), closes the database. */
  close(): Promise<void>;
}

/** The message names the address and the reason, for the operator. */
export class BackendListenError extends Error {
  override readonly name = "BackendListenError";
}

/** Rejects with DatabaseError or ListenError. */
export async function startFinanceBackend(options: FinanceBackendOptions): Promise<FinanceBackend> {
  const database = openDatabase(options.database);
  try {
    return await serveFrom(database, options);
  } catch (error) {
    database.close();
    throw error;
  }
}

async function serveFrom(database: DatabaseSync, options: FinanceBackendOptions): Promise<FinanceBackend> {
  const server = createServer({
    keepAliveTimeout: keepAliveMs,
    requestTimeout: requestMs,
    headersTimeout: requestMs,
    requireHostHeader: false, // refused below, with a body
  });
  const connections = new Connections(server);
  const context = { api: createApi(database), onFailure: options.onFailure ?? (() => {}) };
  server.on("request", (request, response) => void serve(context, request, response));
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    // A second response would corrupt the one that is being sent.
    if (connections.isBusy(socket) || !socket.writable) socket.destroy();
    else refuse(error, socket);
  });
  await listen(server, options.host, options.port);
  const { address, port } = server.address() as AddressInfo;
  let closed: Promise<void> | undefined;
  return {
    host: address,
    port,
    url: `http://${address.includes(":") ? `[${address}]` : address}:${port}`,
    close: () => {
      closed ??= connections.close(closeGraceMs).then(() => database.close());
      return closed;
    },
  };
}

/** Longer than a proxy keeps its idle connections, so that the proxy closes them. */
const keepAliveMs = 75_000;
const requestMs = 30_000;
const closeGraceMs = 5000;

interface Context {
  readonly api: Api;
  readonly onFailure: (error: unknown) => void;
}

async function serve(context: Context, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await drain(request, maxBodyBytes);
  if (body === "cut off") return;
  send(response, body === "too large" ? bodyTooLarge : answer(context, request));
}

function answer({ api, onFailure }: Context, request: IncomingMessage): ApiAnswer {
  const { authorization, host, "if-none-match": ifNoneMatch } = request.headers;
  if (host === undefined && request.httpVersion === "1.1") return malformedRequest;
  try {
    return api({
      method: request.method ?? "GET",
      target: originForm(request.url ?? "/"),
      authorization,
      ifNoneMatch,
    });
  } catch (error) {
    onFailure(error);
    return internalError;
  }
}

function send(response: ServerResponse, answer: ApiAnswer): void {
  const length = answer.body === null ? {} : { "content-length": Buffer.byteLength(answer.body) };
  response.writeHead(answer.status, { ...answer.headers, ...length });
  response.end(answer.body ?? undefined);
}

/** A server must accept the absolute form (RFC 9112, section 3.2.2). */
function originForm(target: string): string {
  const rest = target.replace(/^https?:\/\/[^/?#]*/i, "");
  return rest.startsWith("/") ? rest : `/${rest}`;
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const failed = (error: NodeJS.ErrnoException): void => {
      const reason = error.code === "EADDRINUSE" ? "the port is in use" : error.message;
      reject(new BackendListenError(`cannot listen on ${host}:${port}: ${reason}`, { cause: error }));
    };
    server.once("error", failed);
    server.listen({ host, port }, () => {
      server.off("error", failed);
      resolve();
    });
  });
}
