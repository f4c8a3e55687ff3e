// A gRPC server for calls with one request message: HTTP/2 with prior knowledge and a table of methods. Connections,
// concurrent calls, bytes and time are bounded. A call that fails gets a gRPC status that says why.
import { type IncomingHttpHeaders, performServerHandshake, type ServerHttp2Stream } from "node:http2";
import { createServer, type Server, type Socket } from "node:net";
import { ClientBytes } from "../../core/client-bytes.ts";
import { FrameBudgets } from "../../core/frame-budget.ts";
import { type Http2CloseReason, http2CloseCode } from "../../core/http2-bounds.ts";
import type { Replaceable } from "../../core/traffic-settings.ts";
import { GuardedSocket } from "../../exchange/http2-guarded-socket.ts";
import { Http2Lifetime } from "../../exchange/http2-lifetime.ts";
import { listen } from "../../exchange/listen.ts";
import { type CallParts, GrpcCall, refuseStream } from "./call.ts";
import { MessageReader } from "./message-frame.ts";
import { type GrpcStatus, grpcCodes, readTimeoutMs, statuses } from "./status.ts";

export interface GrpcMethod {
  readonly maxMessageBytes: number;
  /** Returns why the caller is refused, or null. It runs before the message is read. */
  admits(call: GrpcCall): GrpcStatus | null;
  /** Answers the call, at once or later. */
  handle(message: Buffer, call: GrpcCall): void;
}

/** The bounds on connections, and their events. */
export interface GrpcConnections {
  /** False: the connection exceeds its bound and is closed. */
  admit(socket: Socket): boolean;
  /** Called when a call begins on the connection, and when it has no call any more. */
  setBusy(socket: Socket, isBusy: boolean): void;
  /** The number of calls in progress at once; more are refused. */
  maxCalls(socket: Socket): number;
  /** Peers with the same key share the memory of messages and, unless they are trusted, a budget of frames. */
  peerKey(socket: Socket): string;
  isTrusted(socket: Socket): boolean;
  /** Called when a connection is closed because it costs too much. */
  onClosed(reason: Http2CloseReason, socket: Socket): void;
}

export interface GrpcTimes {
  /** How long the message of a call may take to arrive, and how long a new connection may wait with its first call. */
  readonly headTimeoutMs: number;
  /** How long a connection may be idle. */
  readonly keepAliveTimeoutMs: number;
}

export interface GrpcServerOptions {
  /** By path, such as "/grpc.health.v1.Health/Check". */
  readonly methods: ReadonlyMap<string, GrpcMethod>;
  readonly connections: GrpcConnections;
  readonly nowMs: () => number;
  readonly settings: Readonly<Replaceable<GrpcTimes>>;
  /** How long a caller may keep its connection open after the GOAWAY and its last call. */
  readonly lingerMs: number;
  /** Called when a call ends without a message. */
  readonly onCallFailed: (call: GrpcCall, status: GrpcStatus) => void;
  readonly onFailure: (error: unknown) => void;
}

/** Envoy opens another connection for more. */
const maxCallsPerConnection = 100;
const maxHeldBytes = 16 * 1024 * 1024;
const maxHeadBytes = 16 * 1024;

const sessionOptions = {
  settings: { maxConcurrentStreams: maxCallsPerConnection, maxHeaderListSize: maxHeadBytes, enablePush: false },
  strictSingleValueFields: false,
};

export class GrpcServer {
  readonly #options: GrpcServerOptions;
  readonly #server: Server;
  readonly #connections = new Map<Socket, Http2Lifetime>();
  readonly #budgets: FrameBudgets;
  readonly #held = new ClientBytes(maxHeldBytes);

  constructor(options: GrpcServerOptions) {
    this.#options = options;
    this.#budgets = new FrameBudgets(options.nowMs);
    this.#server = createServer({ noDelay: true }, (socket) => this.#onConnection(socket));
  }

  /** Rejects with the system's error if it cannot listen. */
  listen(host: string, port: number, isShared = false): Promise<{ host: string; port: number }> {
    return listen(this.#server, { host, port, isShared }, this.#options.onFailure);
  }

  /** Takes no new connections and calls. Resolves with the number of calls that were broken off after the timeout. */
  async drain(timeoutMs: number): Promise<number> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const connection of this.#connections.values()) connection.end();
    let brokenOff = 0;
    const timer = setTimeout(() => {
      for (const [socket, { openCount }] of this.#connections) {
        brokenOff += openCount;
        socket.destroy();
      }
    }, timeoutMs);
    await closed;
    clearTimeout(timer);
    return brokenOff;
  }

  #onConnection(socket: Socket): void {
    // "close" follows. Without a listener the error would end the process.
    socket.on("error", ignoreError);
    const { connections } = this.#options;
    if (!connections.admit(socket)) {
      socket.destroy();
      return;
    }
    const budget = this.#budgets.open(connections.isTrusted(socket) ? null : connections.peerKey(socket));
    const guarded = new GuardedSocket(socket, budget, (reason) => {
      connections.onClosed(reason, socket);
      lifetime.breakOff(http2CloseCode(reason));
    });
    const session = performServerHandshake(guarded.asDuplex, sessionOptions);
    session.on("error", ignoreError);
    const { settings, lingerMs } = this.#options;
    const { headTimeoutMs: firstMs, keepAliveTimeoutMs: idleMs } = settings.current;
    const lifetime = new Http2Lifetime(session, socket, { firstMs, idleMs, lingerMs });
    // A Watch may be silent for hours, but not on a session that is closing: the caller calls again elsewhere.
    session.setTimeout(idleMs, () => session.closed && lifetime.endStalled());
    this.#connections.set(socket, lifetime);
    socket.once("close", () => {
      this.#connections.delete(socket);
      budget.close();
    });
    const onStreamClose = (): void => {
      lifetime.streamClosed();
      if (lifetime.openCount === 0) connections.setBusy(socket, false);
    };
    session.on("stream", (stream, fields, _flags, rawHeaders) => {
      stream.on("error", ignoreError);
      if (stream.destroyed) return;
      lifetime.streamOpened();
      guarded.guard.onRequest();
      stream.once("close", onStreamClose);
      connections.setBusy(socket, true);
      this.#onStream({ stream, socket, rawHeaders }, fields, lifetime.openCount);
    });
  }

  /** `openCount` is the number of calls on the connection, including this one. */
  #onStream(parts: CallParts, fields: IncomingHttpHeaders, openCount: number): void {
    const { stream } = parts;
    const contentType = fields["content-type"] ?? "";
    if (fields[":method"] !== "POST" || !/^application\/grpc(?:\+proto)?(?:;|$)/.test(contentType)) {
      // Not gRPC, so the answer is a status of HTTP.
      refuseStream(stream, { ":status": 415 });
      return;
    }
    const call = new GrpcCall(parts, this.#options.onCallFailed);
    const method = this.#options.methods.get(`${fields[":path"]}`);
    const timeoutMs = readTimeoutMs(`${fields["grpc-timeout"] ?? "8H"}`);
    if (method === undefined) call.fail(failures.unknownMethod);
    else if (timeoutMs === undefined) call.fail(failures.noTimeout);
    else this.#take(call, { stream, method, timeoutMs, openCount });
  }

  #take(call: GrpcCall, { stream, method, timeoutMs, openCount }: CallToTake): void {
    // First, because a secret in the call raises the bound.
    const refused = method.admits(call);
    const isOneTooMany = openCount > this.#options.connections.maxCalls(call.socket);
    if (refused !== null || isOneTooMany) {
      call.fail(refused ?? failures.tooManyCalls);
      return;
    }
    const { connections, settings, onFailure } = this.#options;
    const { headTimeoutMs } = settings.current;
    const reader = new MessageReader(method.maxMessageBytes, this.#held, connections.peerKey(call.socket));
    // Where the caller waits longer than the message may take, the answer may be late: a watcher waits for a change.
    const endsInTime = timeoutMs <= headTimeoutMs;
    const timer = setTimeout(failLate, Math.min(timeoutMs, headTimeoutMs), call);
    arriving.set(stream, { call, method, reader, timer, endsInTime, onFailure });
    stream.on("data", onPiece).once("end", onMessage);
    if (stream.destroyed) onClose.call(stream);
    else stream.once("close", onClose);
  }
}

interface CallToTake {
  readonly stream: ServerHttp2Stream;
  readonly method: GrpcMethod;
  readonly timeoutMs: number;
  /** The calls of the connection, this one included. */
  readonly openCount: number;
}

interface ArrivingCall {
  readonly call: GrpcCall;
  readonly method: GrpcMethod;
  readonly reader: MessageReader;
  readonly timer: NodeJS.Timeout;
  /** The timer runs on when the message has arrived. */
  readonly endsInTime: boolean;
  readonly onFailure: (error: unknown) => void;
}

/** Calls whose message is being read, so that the listeners below serve all of them and none is made for a call. */
const arriving = new WeakMap<ServerHttp2Stream, ArrivingCall>();

function onPiece(this: ServerHttp2Stream, piece: Buffer): void {
  const { call, reader } = arriving.get(this) as ArrivingCall;
  if (call.isOver) return;
  const flaw = reader.push(piece);
  if (flaw !== null) call.fail(flaw);
}

function onMessage(this: ServerHttp2Stream): void {
  const { call, method, reader, timer, endsInTime, onFailure } = arriving.get(this) as ArrivingCall;
  if (call.isOver) return;
  if (!endsInTime) clearTimeout(timer);
  const message = reader.whole();
  reader.release();
  if (!Buffer.isBuffer(message)) {
    call.fail(message);
    return;
  }
  try {
    method.handle(message, call);
  } catch (error) {
    onFailure(error);
    call.fail(statuses.internal);
  }
}

function onClose(this: ServerHttp2Stream): void {
  const { reader, timer } = arriving.get(this) as ArrivingCall;
  clearTimeout(timer);
  reader.release();
}

function failLate(call: GrpcCall): void {
  call.fail(failures.late);
}

function ignoreError(): void {}

const failures = {
  unknownMethod: { code: grpcCodes.unimplemented, message: "there is no such method here" },
  noTimeout: { code: grpcCodes.invalidArgument, message: "grpc-timeout is not well-formed" },
  tooManyCalls: { code: grpcCodes.resourceExhausted, message: "too many calls at once" },
  late: { code: grpcCodes.deadlineExceeded, message: "the call took too long" },
} as const;
