// Reads calls with Node's HTTP server, from connections that sent something other than simple requests. It does not
// listen. Bodies are discarded.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { errorCode, ignoreError } from "../../core/failure.ts";
import { listOf } from "../../core/header-lines.ts";
import { localReplies } from "../../core/local-reply.ts";
import { serializeHead } from "../../core/response-head.ts";
import { lingerMs } from "../../exchange/http1-bounds.ts";
import { acceptMinorVersions } from "../../exchange/minor-versions.ts";
import { createServer } from "../../exchange/node-http.ts";
import { stopParsingWhen } from "../../exchange/stop-parsing.ts";
import { type CheckAnswer, CheckTransport } from "../check.ts";
import { type CheckProblem, checkProblems } from "../check-problems.ts";
import type { CheckSettings } from "../check-settings.ts";
import type { HttpCaller, HttpCalls } from "./http-calls.ts";

/**
 * The head of a client's request, with the bound of the traffic listener, and the target, which the ingress adds again.
 */
const maxHeadBytes = 32 * 1024;
const maxFields = 250;

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

export class NodeCalls {
  readonly #calls: HttpCalls;
  readonly #server: Server;
  /** Connections on which nothing more is parsed: they are closed after the answer to their last call. */
  readonly #over = new WeakSet<Duplex>();
  /** The last call of each connection. */
  readonly #lastCalls = new WeakMap<Duplex, LastCall>();

  constructor(calls: HttpCalls) {
    this.#calls = calls;
    this.#server = createServer({
      maxHeaderSize: maxHeadBytes,
      connectionsCheckingInterval: Math.min(500, calls.settings.headTimeoutMs),
      requireHostHeader: false,
    });
    const server = this.#server;
    server.maxHeadersCount = maxFields;
    const onCall = (req: IncomingMessage, res: ServerResponse): void => this.#onCall(req, res);
    server.on("request", onCall);
    server.on("checkContinue", onCall);
    server.on("checkExpectation", onCall);
    // A caller asks about a CONNECT as about other methods, and sends none itself.
    server.on("connect", (_req, socket) => this.#refuseRaw(socket, localReplies.unsupportedMethod));
    server.on("clientError", (error, socket) => this.#onClientError(error, socket));
    // Starts Node's timer that checks connections, which a server that does not listen lacks.
    server.emit("listening");
  }

  /** Takes a connection over, with all unhandled bytes in it. */
  adopt(socket: Socket): void {
    setTimeouts(this.#server, this.#calls.settings);
    this.#server.emit("connection", socket);
    acceptMinorVersions(this.#server, socket);
    stopParsingWhen(socket, () => this.#over.has(socket));
  }

  closeIdle(): void {
    this.#server.closeIdleConnections();
  }

  /** Ends Node's timer. All connections are closed. */
  close(): void {
    this.#server.close();
  }

  #onCall(req: IncomingMessage, res: ServerResponse): void {
    const { rawHeaders, method = "", url: target = "" } = req;
    this.#note(req, res);
    // A body is discarded, so that the next call can be read.
    req.resume();
    const caller = new NodeCaller(req, res, this.#calls, this.#over);
    // Node's parser accepts HTTP/0.9 and HTTP/2.0 in a request line.
    if (req.httpVersionMajor !== 1) {
      caller.endAfterAnswer();
      caller.answer(this.#calls.refusal("malformed", checkProblems.malformed, caller.address));
      return;
    }
    this.#calls.begin({ method, target, rawHeaders }, caller, new CheckTransport(caller));
  }

  #note(req: IncomingMessage, res: ServerResponse): void {
    const { socket } = req;
    const last = this.#lastCalls.get(socket);
    const calls = last?.bytesRead === socket.bytesRead ? last.calls + 1 : 1;
    this.#lastCalls.set(socket, { req, bytesRead: socket.bytesRead, calls });
    if (calls === maxCallsInRead) endAfterAnswer(socket, res, this.#over);
  }

  #onClientError(error: Error, socket: Duplex): void {
    const code = errorCode(error) ?? "";
    // The error is in the body of a call that has its answer. A second one would be taken for that of the next call.
    if (this.#lastCalls.get(socket)?.req.complete === false) endQuietly(socket);
    else if (code === "ERR_HTTP_REQUEST_TIMEOUT") this.#refuseRaw(socket, checkProblems.slow);
    else if (code === "HPE_HEADER_OVERFLOW") this.#refuseRaw(socket, checkProblems.headTooLarge);
    else if (code.startsWith("HPE_") && code !== "HPE_INVALID_EOF_STATE")
      this.#refuseRaw(socket, checkProblems.malformed);
    else socket.destroy();
  }

  /** Answers past Node's response, if there is no call or none that Node can answer. */
  #refuseRaw(socket: Duplex, problem: CheckProblem): void {
    const caller = "remoteAddress" in socket ? String(socket.remoteAddress) : "";
    const { status, reason, lines, body } = this.#calls.refusal("malformed", problem, caller);
    if (!socket.writable) {
      socket.destroy();
      return;
    }
    socket.end(serializeHead(status, reason, `${lines}Connection: close\r\n`) + body);
    endInTime(socket);
  }
}

function setTimeouts(server: Server, { headTimeoutMs, keepAliveTimeoutMs }: CheckSettings): void {
  server.headersTimeout = headTimeoutMs;
  // Bodies are not used, so they get no more time than a head.
  server.requestTimeout = headTimeoutMs;
  server.keepAliveTimeout = keepAliveTimeoutMs;
}

class NodeCaller implements HttpCaller {
  readonly takesUnavailable = false;
  readonly socket: Socket;
  readonly #res: ServerResponse;
  readonly #calls: HttpCalls;
  readonly #over: WeakSet<Duplex>;

  constructor({ socket }: IncomingMessage, res: ServerResponse, calls: HttpCalls, over: WeakSet<Duplex>) {
    this.socket = socket;
    this.#res = res;
    this.#calls = calls;
    this.#over = over;
  }

  get address(): string | undefined {
    return this.socket.remoteAddress;
  }

  get isGone(): boolean {
    return this.#res.destroyed || this.#res.headersSent;
  }

  answer({ status, reason, lines, body }: CheckAnswer): void {
    if (this.#calls.isEnding) this.#res.shouldKeepAlive = false;
    // The answer has a Date already, from the clock that Reset is based on.
    this.#res.sendDate = false;
    this.#res.writeHead(status, reason, listOf(lines));
    this.#res.end(body);
  }

  endAfterAnswer(): void {
    endAfterAnswer(this.socket, this.#res, this.#over);
  }

  abort(): void {
    this.#res.destroy();
  }
}

function endAfterAnswer(socket: Socket, res: ServerResponse, over: WeakSet<Duplex>): void {
  res.shouldKeepAlive = false;
  over.add(socket);
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
