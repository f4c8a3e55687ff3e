// The listener on which an ingress asks for checks over HTTP. An untrusted caller is refused before its call is parsed.
// A decided answer carries X-Headgate-Status; an undecided one is a 5xx or no answer. Bodies are discarded.
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from "node:http";
import { Server as NetServer } from "node:net";
import type { Duplex } from "node:stream";
import type { CheckRefusal } from "../../core/check-refusal.ts";
import { errorCode, ignoreError } from "../../core/failure.ts";
import { localReplies } from "../../core/local-reply.ts";
import { serializeHead } from "../../core/response-head.ts";
import type { Replaceable } from "../../core/traffic-settings.ts";
import { listen } from "../../exchange/listen.ts";
import { stopParsingWhen } from "../../exchange/stop-parsing.ts";
import { CallerConnections } from "../caller-connections.ts";
import type { Check, CheckAnswer, CheckCaller, Checks } from "../check.ts";
import { type CheckProblem, checkProblems } from "../check-problems.ts";
import type { CheckSettings } from "../check-settings.ts";
import { readHttpCheck } from "./http-check.ts";

export interface ExtAuthHttpOptions {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** Whether other threads open the same port. */
  readonly isShared: boolean;
  readonly settings: Replaceable<CheckSettings>;
  readonly checks: Checks;
  /** `caller` is an address. */
  readonly onRefused: (reason: CheckRefusal, caller: string, detail: string | null) => void;
  readonly onFailure: (error: unknown) => void;
}

export interface ExtAuthHttp {
  readonly host: string;
  readonly port: number;
  /** From now on every answer closes its connection. New connections are still accepted. */
  announceEnd(): void;
  /** Accepts no new connections. Resolves when the last one is closed, at the latest after the timeout. */
  drain(timeoutMs: number): Promise<void>;
}

/**
 * The head of a client's request, with the bound of the traffic listener, and the target, which the ingress adds again.
 */
const maxHeadBytes = 32 * 1024;
const maxFields = 250;

/** Rejects with the system's error if it cannot listen. */
export async function startExtAuthHttp(options: ExtAuthHttpOptions): Promise<ExtAuthHttp> {
  const calls = new HttpCalls(options);
  const server = calls.createServer();
  return {
    ...(await listen(server, options, options.onFailure)),
    announceEnd: () => calls.announceEnd(),
    drain: (timeoutMs) => drain(server, calls, timeoutMs),
  };
}

/** How long a caller may take to read a refusal that was written past Node's response, and to close its side. */
const lingerMs = 2_000;

/** How long a kept connection may bring another call after the port is closed, for calls that are on their way. */
const graceMs = 1000;

async function drain(server: Server, calls: HttpCalls, timeoutMs: number): Promise<void> {
  calls.announceEnd();
  // Not the close of node:http, which closes connections that have just been opened or have just sent a call.
  const closed = new Promise<void>((resolve) => void NetServer.prototype.close.call(server, () => resolve()));
  const timers = [
    setTimeout(() => server.closeIdleConnections(), Math.min(graceMs, timeoutMs)),
    // Not by the server, which no longer knows the connections that it handed out.
    setTimeout(() => calls.destroyAll(), timeoutMs),
  ];
  await closed;
  for (const timer of timers) clearTimeout(timer);
  // Ends Node's timer that checks connections.
  server.close();
}

/**
 * All calls in one read of a socket are answered in one turn of the event loop. Each takes about 25 µs, and a read may
 * contain thousands. No ingress pipelines calls.
 */
const maxCallsInRead = 100;

interface LastCall {
  readonly req: IncomingMessage;
  /** Of the socket. It does not change within a read. */
  readonly bytesRead: number;
  /** In this read. */
  readonly calls: number;
}

class HttpCalls {
  readonly #options: ExtAuthHttpOptions;
  readonly #connections: CallerConnections;
  #isEnding = false;
  /** Connections on which nothing more is parsed: they are closed after the answer to their last call. */
  readonly #over = new WeakSet<Duplex>();
  /** The last call of each connection. */
  readonly #lastCalls = new WeakMap<Duplex, LastCall>();

  constructor(options: ExtAuthHttpOptions) {
    this.#options = options;
    const { settings, onRefused } = options;
    this.#connections = new CallerConnections({
      settings,
      listener: "http",
      onClosed: (address) => onRefused("overloaded", address, null),
    });
  }

  createServer(): Server {
    const { settings } = this.#options;
    const server = createServer({
      maxHeaderSize: maxHeadBytes,
      connectionsCheckingInterval: Math.min(500, settings.current.headTimeoutMs),
      requireHostHeader: false,
      noDelay: true,
    });
    server.maxHeadersCount = maxFields;
    const onCall = (req: IncomingMessage, res: ServerResponse): void => this.#onCall(req, res);
    server.on("request", onCall);
    server.on("checkContinue", onCall);
    server.on("checkExpectation", onCall);
    // A caller asks about a CONNECT as about other methods, and sends none itself.
    server.on("connect", (_req, socket) => this.#refuseRaw(socket, localReplies.unsupportedMethod));
    server.on("clientError", (error, socket) => this.#onClientError(error, socket));
    server.on("connection", (socket) => {
      setTimeouts(server, settings.current);
      if (this.#connections.add(socket)) stopParsingWhen(socket, () => this.#over.has(socket));
    });
    setTimeouts(server, settings.current);
    return server;
  }

  announceEnd(): void {
    this.#isEnding = true;
  }

  destroyAll(): void {
    this.#connections.destroyAll();
  }

  #onCall(req: IncomingMessage, res: ServerResponse): void {
    const { rawHeaders, socket } = req;
    this.#note(req, res);
    if (!this.#options.settings.current.callers.admits(socket.remoteAddress, rawHeaders)) {
      this.#refuse(req, res, "untrusted", checkProblems.untrusted);
      return;
    }
    this.#connections.promote(socket);
    const reading = readHttpCheck({ method: req.method ?? "", target: req.url ?? "", rawHeaders });
    // A body is discarded, so that the next call can be read.
    req.resume();
    if (reading.ok) this.#check(reading.check, req, res);
    else this.#refuse(req, res, "malformed", reading.problem);
  }

  #note(req: IncomingMessage, res: ServerResponse): void {
    const { socket } = req;
    const last = this.#lastCalls.get(socket);
    const calls = last?.bytesRead === socket.bytesRead ? last.calls + 1 : 1;
    this.#lastCalls.set(socket, { req, bytesRead: socket.bytesRead, calls });
    if (calls === maxCallsInRead) this.#endAfter(req, res);
  }

  /** Reads no more calls, and closes the connection after the answer. */
  #endAfter({ socket }: IncomingMessage, res: ServerResponse): void {
    res.shouldKeepAlive = false;
    this.#over.add(socket);
  }

  #check(check: Check, req: IncomingMessage, res: ServerResponse): void {
    const caller = new HttpCheckCaller(res, this);
    if (!this.#options.checks.begin(check, caller)) this.#refuse(req, res, "malformed", checkProblems.noClient);
  }

  #refuse(req: IncomingMessage, res: ServerResponse, reason: CheckRefusal, problem: CheckProblem): void {
    this.#options.onRefused(reason, req.socket.remoteAddress ?? "", problem.errMsg);
    if (reason === "untrusted") this.#endAfter(req, res);
    this.send(res, this.#options.checks.refuse(problem));
  }

  send(res: ServerResponse, { status, headers, body }: CheckAnswer): void {
    if (this.#isEnding) res.shouldKeepAlive = false;
    res.writeHead(status, [...headers]);
    res.end(body);
  }

  #onClientError(error: Error, socket: Duplex): void {
    const code = errorCode(error) ?? "";
    const hasAsked = "bytesRead" in socket && socket.bytesRead !== 0;
    // The error is in the body of a call that has its answer. A second one would be taken for that of the next call.
    if (this.#lastCalls.get(socket)?.req.complete === false) endQuietly(socket);
    else if (code === "ERR_HTTP_REQUEST_TIMEOUT" && hasAsked) this.#refuseRaw(socket, checkProblems.slow);
    else if (code === "HPE_HEADER_OVERFLOW") this.#refuseRaw(socket, checkProblems.headTooLarge);
    else if (code.startsWith("HPE_") && code !== "HPE_INVALID_EOF_STATE")
      this.#refuseRaw(socket, checkProblems.malformed);
    else socket.destroy();
  }

  /** Answers past Node's response, if there is no call or none that Node can answer. */
  #refuseRaw(socket: Duplex, problem: CheckProblem): void {
    const caller = "remoteAddress" in socket ? String(socket.remoteAddress) : "";
    this.#options.onRefused("malformed", caller, problem.errMsg);
    if (!socket.writable) {
      socket.destroy();
      return;
    }
    const { status, headers, body } = this.#options.checks.refuse(problem);
    socket.end(serializeHead(status, STATUS_CODES[status] ?? "", [...headers, "Connection", "close"]) + body);
    endInTime(socket);
  }
}

function setTimeouts(server: Server, { headTimeoutMs, keepAliveTimeoutMs }: CheckSettings): void {
  server.headersTimeout = headTimeoutMs;
  // Bodies are not used, so they get no more time than a head.
  server.requestTimeout = headTimeoutMs;
  server.keepAliveTimeout = keepAliveTimeoutMs;
}

class HttpCheckCaller implements CheckCaller {
  readonly takesUnavailable = false;
  readonly #res: ServerResponse;
  readonly #calls: HttpCalls;

  constructor(res: ServerResponse, calls: HttpCalls) {
    this.#res = res;
    this.#calls = calls;
  }

  get isGone(): boolean {
    return this.#res.destroyed || this.#res.headersSent;
  }

  answer(answer: CheckAnswer): void {
    // The answer has a Date already, from the clock that Reset is based on.
    this.#res.sendDate = false;
    this.#calls.send(this.#res, answer);
  }

  abort(): void {
    this.#res.destroy();
  }
}

function endQuietly(socket: Duplex): void {
  socket.end();
  endInTime(socket);
}

/** Node neither reads nor times a socket that it handed out (CONNECT), and removes its own listeners. */
function endInTime(socket: Duplex): void {
  // Without a listener a reset would end the process.
  socket.on("error", ignoreError);
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once("close", () => clearTimeout(timer));
  socket.resume();
}
