// `headgate console`: the page and the admin API of a gateway on a port of this machine, for a browser and for programs
// that cannot use a Unix socket. Who has the token of this run may call; it is printed once, and worth nothing when the
// command has ended.
import { hash, randomBytes } from "node:crypto";
import { once } from "node:events";
import type { ClientRequest, IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { pipeline } from "node:stream";
import { type AdminAccess, decideAccess, findForeign } from "../../admin/access.ts";
import { type AdminRole, AdminTokens } from "../../admin/admin-tokens.ts";
import { type AdminError, errors, errorsBody } from "../../admin/errors.ts";
import { createServer } from "../../admin/node-http.ts";
import { jsonType, maxBodyBytes } from "../../admin/request-fields.ts";
import { SignInCode, signInPath, unboundedGuesses } from "../../admin/sign-in-code.ts";
import { systemClock } from "../../core/clock.ts";
import { asError, errorCode } from "../../core/failure.ts";
import { CommandError, type CommandIo, exitCodes } from "../io.ts";
import { bytesOf, reachOf, senderTo, type Where, whereText } from "./admin-client.ts";
import type { ConnectedGateway } from "./connect.ts";
import type { ConsoleArguments } from "./invocation.ts";
import { jsonText, linesText } from "./printed.ts";
import type { OpenedConsole } from "./printed-schemas.ts";

/** Resolves with the exit code, after the first signal. */
export async function runConsole(
  { client: { where } }: ConnectedGateway,
  { port, isReadOnly }: ConsoleArguments,
  isJson: boolean,
  io: CommandIo,
): Promise<number> {
  // Registered before the port is opened, so that a signal during the start is handled too.
  const signalled = new Promise<void>((end) => io.onSignal(() => end()));
  const token = randomBytes(32).toString("base64url");
  const role = isReadOnly ? "read" : "write";
  const tokens = new AdminTokens([{ digest: hash("sha256", token), name: "console", role }]);
  const signIn = new SignInCode(token, systemClock.monotonicMs);
  const server = await openConsoleServer(where, { tokens, signIn }, port).catch((error: unknown) => {
    throw new CommandError(exitCodes.unavailable, `cannot open a port: ${asError(error).message}`, [], error);
  });
  const url = `http://127.0.0.1:${server.port}/`;
  const opened: OpenedConsole = { url, token, isReadOnly };
  io.out(isJson ? jsonText(opened) : linesText(linesOf(opened, signIn, whereText(where))));
  await signalled;
  await server.close();
  return exitCodes.ok;
}

function linesOf({ url, token, isReadOnly }: OpenedConsole, { text: code }: SignInCode, place: string): string[] {
  return [
    `The console of the gateway at ${place}, until Ctrl-C${isReadOnly ? ", to read only" : ""}. The link signs in once, within a minute:`,
    `  ${url}console/#code=${code}`,
    "Later, sign in with the token of this run:",
    `  ${token}`,
    "The API is on the same port:",
    `  curl -H 'Authorization: Bearer ${token}' ${url}api/status`,
  ];
}

/**
 * Passes calls on from a port of this machine to the admin API of a gateway. Asks of each call what the API asks over
 * TCP, with the same code: a host that is this port's, no page of another origin, and the token, with guesses bounded.
 * The gateway gets few headers, and its own token in place of that of this run. Answers are passed on as they come,
 * streams of events too; only the status is changed for who may read alone, because the gateway knows what this command
 * may.
 */
interface ConsoleServer {
  readonly port: number;
  /** Ends what is under way. */
  close(): Promise<void>;
}

/** More than a browser opens, with as many streams of events as a gateway has. */
const maxConnections = 64;
/** A stream of events is never silent for longer than 15 s. */
const silentMs = 60_000;
const host = "127.0.0.1";
/** What the API reads of a request. Others, such as cookies, stay on this machine. */
const passedOn = ["accept", "content-type", "content-length", "if-match", "if-none-match", "last-event-id"];
/** About a connection, and not about the answer: RFC 9110, section 7.6.1. */
const hopByHop = ["connection", "keep-alive", "transfer-encoding", "upgrade", "trailer"];

const errorsOfOurs = {
  readOnly: { ...errors.readOnly, errMsg: "This console was opened with --read: it changes nothing." },
  noPath: { ...errors.badRequest, errMsg: "target: found no path, expected one, such as /api/status." },
} satisfies Record<string, AdminError>;

/** Port 0 picks a free one. Rejects with the system's error. */
async function openConsoleServer(
  where: Where,
  { tokens, signIn }: { readonly tokens: AdminTokens; readonly signIn: SignInCode },
  port: number,
): Promise<ConsoleServer> {
  const passOn = await openPassing(where);
  let own = port;
  const server = createServer(
    { headersTimeout: 10_000, requestTimeout: 30_000, keepAliveTimeout: 5_000 },
    (request, response) => {
      const hosts = ["127.0.0.1", "localhost", "[::1]"].map((name) => `${name}:${own}`);
      const access: AdminAccess = { tokens: { value: tokens }, hosts, listenHost: host };
      // Everybody who reaches this port is on this machine.
      const reached = { isUnixSocket: false, isTls: false, peerKey: host, local: { host, port: own } };
      if (isOfPage(request)) {
        const problem = findForeign(request.rawHeaders, reached, access);
        return problem === null ? passOn(request, response, "read") : refuse(response, problem);
      }
      if (request.method === "POST" && request.url === signInPath) {
        const exchanged = signIn.exchange(request.rawHeaders, reached, access);
        if ("error" in exchanged) return refuse(response, exchanged.error);
        return answer(response, 200, JSON.stringify(exchanged), {});
      }
      const decision = decideAccess(request.rawHeaders, reached, access, unboundedGuesses);
      if (!decision.ok) return refuse(response, decision.error, decision.fields);
      if (!request.url?.startsWith("/")) return refuse(response, errorsOfOurs.noPath);
      if (!mayCall(request, decision.identity.role)) return refuse(response, errorsOfOurs.readOnly);
      return passOn(request, response, decision.identity.role);
    },
  );
  server.maxConnections = maxConnections;
  server.listen(port, host);
  await once(server, "listening");
  own = (server.address() as AddressInfo).port;
  return {
    port: own,
    async close() {
      const closed = new Promise((resolve) => void server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

/** The page's own files are open, as at the gateway: a browser has no token before it has loaded them. */
function isOfPage({ method, url = "" }: IncomingMessage): boolean {
  return (method === "GET" || method === "HEAD") && /^\/console\/(?:\w[\w.-]*)?$/.test(url);
}

/** What a request would get is asked by POST, and changes nothing. */
function mayCall({ method = "", url = "" }: IncomingMessage, role: AdminRole): boolean {
  if (role === "write" || method === "GET" || method === "HEAD") return true;
  return method === "POST" && url === "/api/check";
}

function refuse(response: ServerResponse, { status, message, errMsg }: AdminError, fields: OutgoingHttpHeaders = {}) {
  answer(response, status, errorsBody(message, [errMsg]), fields);
}

/** The rest of the request is not read. */
function answer(response: ServerResponse, status: number, body: string, fields: OutgoingHttpHeaders): void {
  const own = { "content-type": jsonType, "cache-control": "no-store", connection: "close" };
  response.writeHead(status, { ...own, "content-length": Buffer.byteLength(body), ...fields });
  response.end(body);
}

/** `role`: of who calls. */
type PassOn = (request: IncomingMessage, response: ServerResponse, role: AdminRole) => void;

async function openPassing(where: Where): Promise<PassOn> {
  const send = await senderTo(where);
  return (request, response, role) => {
    const { method = "GET", url = "/" } = request;
    const isForReader = role === "read" && method === "GET" && /^\/api\/status(?:\?|$)/.test(url);
    const outgoing = send({
      ...reachOf(where),
      timeout: silentMs,
      method,
      path: url,
      headers: headersFor(request, where),
    });
    response.once("close", () => outgoing.destroy());
    outgoing.on("timeout", () => outgoing.destroy(new Error("it says nothing")));
    outgoing.on("error", (error) => onFailure(response, error));
    outgoing.on("upgrade", (_incoming, socket) => {
      socket.destroy();
      onFailure(response, new Error("it does not speak HTTP alone"));
    });
    outgoing.on("response", (incoming) => {
      const { statusCode = 0 } = incoming;
      if (statusCode < 200) return void outgoing.destroy(new Error("its answer has no status"));
      if (isForReader && statusCode === 200) return void passOnStatus(incoming, response);
      response.writeHead(statusCode, answerHeaders(incoming));
      response.flushHeaders();
      // What has failed is closed on both sides, and the caller sees that the answer is not whole.
      pipeline(incoming, response, () => {});
    });
    void sendBody(request, outgoing, response);
  };
}

/** Hundreds of gateways and upstream addresses have a tenth of it. */
const maxStatusBytes = 4 * 1024 * 1024;

/** The status of a gateway, as it is for who may read. */
async function passOnStatus(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    const whole = await bytesOf(incoming, maxStatusBytes);
    if (whole === null) throw new Error("its status is longer than 4 MiB");
    const status = JSON.parse(whole.toString());
    const body = JSON.stringify({ ...status, caller: { ...status.caller, role: "read" satisfies AdminRole } });
    response.writeHead(200, { ...answerHeaders(incoming), "content-length": Buffer.byteLength(body) });
    response.end(body);
  } catch (error) {
    onFailure(response, error);
  }
}

/** Whole and with the head: written after an answer that has not waited for it, it would fail, and the answer be lost. */
async function sendBody(request: IncomingMessage, outgoing: ClientRequest, response: ServerResponse): Promise<void> {
  let whole: Buffer | null;
  try {
    whole = await bytesOf(request, maxBodyBytes);
  } catch (error) {
    outgoing.destroy(asError(error));
    return;
  }
  if (whole !== null) {
    outgoing.end(whole);
    return;
  }
  refuse(response, errors.bodyTooLarge);
  outgoing.destroy();
}

function onFailure(response: ServerResponse, error: unknown): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const why = errorCode(error) ?? asError(error).message;
  answer(response, 502, errorsBody("Bad Gateway", [`The gateway cannot be asked: ${why}.`]), {});
}

function headersFor({ headers }: IncomingMessage, where: Where): OutgoingHttpHeaders {
  const given = Object.entries(headers).filter(([name]) => passedOn.includes(name));
  return {
    ...Object.fromEntries(given),
    ...(where.kind === "url" ? { authorization: `Bearer ${where.token}` } : { host: "localhost" }),
    // Without it, Node sends the bytes of such a body after the head of a GET as if they were the next request.
    ...(headers["transfer-encoding"] === undefined ? {} : { "transfer-encoding": "chunked" }),
  };
}

function answerHeaders({ headers }: IncomingMessage): OutgoingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !hopByHop.includes(name)));
}
