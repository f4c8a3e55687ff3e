// A gRPC server for calls of one message: HTTP/2 with prior knowledge, a table of methods, and a bound on everything a caller
// can ask for: connections, calls at once, bytes, time. What is wrong with a call is told to its caller by a status of gRPC.
import { type IncomingHttpHeaders, performServerHandshake, type ServerHttp2Stream } from "node:http2";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { type CallParts, GrpcCall, refuseStream } from "./call.ts";
import { GrpcConnection } from "./connection.ts";
import { type HeldBytes, MessageIntake } from "./message-frame.ts";
import { type GrpcStatus, grpcCodes, readTimeoutMs } from "./status.ts";

export interface GrpcMethod {
  readonly maxMessageBytes: number;
  /** Before the message is read: why this caller is refused, if so. */
  admits(call: GrpcCall): GrpcStatus | null;
  /** Answers the call, at once or later. */
  handle(message: Buffer, call: GrpcCall): void | Promise<void>;
}

export interface GrpcServerOptions {
  /** By path, such as "/grpc.health.v1.Health/Check". */
  readonly methods: ReadonlyMap<string, GrpcMethod>;
  /** False: one too many, and closed. */
  readonly admitsConnection: (socket: Socket) => boolean;
  /** How long a call's message may take to arrive, and the first call of a connection. */
  readonly headTimeoutMs: number;
  /** How long a connection may be without a call. */
  readonly keepAliveTimeoutMs: number;
  /** A call that ends without a message. */
  readonly onCallFailed: (call: GrpcCall, status: GrpcStatus) => void;
  readonly onFailure: (error: unknown) => void;
}

/** Beyond these Envoy opens another connection. */
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
  readonly #connections = new Set<GrpcConnection>();
  readonly #held: HeldBytes = { max: maxHeldBytes, now: 0 };

  constructor(options: GrpcServerOptions) {
    this.#options = options;
    this.#server = createServer({ noDelay: true }, (socket) => this.#onConnection(socket));
  }

  /** Rejects with the system's error when the address cannot be had. */
  async listen(host: string, port: number): Promise<{ host: string; port: number }> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen({ host, port }, () => {
        this.#server.off("error", reject);
        // Of a connection that the system could not accept. Without a listener it would end the process.
        this.#server.on("error", this.#options.onFailure);
        resolve();
      });
    });
    const address = this.#server.address() as AddressInfo;
    return { host: address.address, port: address.port };
  }

  /** No new connections, no new calls; resolves with how many calls were broken off when the time was over. */
  async drain(timeoutMs: number): Promise<number> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const connection of this.#connections) connection.endWhenIdle();
    let brokenOff = 0;
    const timer = setTimeout(() => {
      for (const connection of this.#connections) {
        brokenOff += connection.activeCount;
        connection.destroy();
      }
    }, timeoutMs);
    await closed;
    clearTimeout(timer);
    return brokenOff;
  }

  #onConnection(socket: Socket): void {
    // A break is told by "close"; without a listener the error would end the process.
    socket.on("error", ignoreBreak);
    if (!this.#options.admitsConnection(socket)) {
      socket.destroy();
      return;
    }
    const session = performServerHandshake(socket, sessionOptions);
    session.on("error", ignoreBreak);
    const connection = new GrpcConnection(
      { session, socket },
      {
        firstCallTimeoutMs: this.#options.headTimeoutMs,
        idleTimeoutMs: this.#options.keepAliveTimeoutMs,
      },
    );
    this.#connections.add(connection);
    socket.once("close", () => this.#connections.delete(connection));
    session.on("stream", (stream, fields, _flags, rawHeaders) => {
      stream.on("error", ignoreBreak);
      if (stream.destroyed) return;
      connection.callBegan();
      stream.once("close", () => connection.callEnded());
      this.#onStream({ stream, socket, rawHeaders }, fields);
    });
  }

  #onStream(parts: CallParts, fields: IncomingHttpHeaders): void {
    const { stream } = parts;
    const contentType = fields["content-type"] ?? "";
    if (fields[":method"] !== "POST" || !/^application\/grpc(?:\+proto)?(?:;|$)/.test(contentType)) {
      // Not gRPC, so it is told in the words of HTTP.
      refuseStream(stream, { ":status": 415 });
      return;
    }
    const call = new GrpcCall(parts, this.#options.onCallFailed);
    const method = this.#options.methods.get(`${fields[":path"]}`);
    const timeoutMs = readTimeoutMs(`${fields["grpc-timeout"] ?? "8H"}`);
    if (method === undefined) call.fail(failures.unknownMethod);
    else if (timeoutMs === undefined) call.fail(failures.noTimeout);
    else this.#take(call, stream, method, timeoutMs);
  }

  #take(call: GrpcCall, stream: ServerHttp2Stream, method: GrpcMethod, timeoutMs: number): void {
    const refused = method.admits(call);
    if (refused !== null) {
      call.fail(refused);
      return;
    }
    const { headTimeoutMs } = this.#options;
    const intake = new MessageIntake(method.maxMessageBytes, this.#held);
    const late = setTimeout(() => call.fail(failures.late), Math.min(timeoutMs, headTimeoutMs));
    call.onClose(() => {
      clearTimeout(late);
      intake.forget();
    });
    stream.on("data", (piece: Buffer) => {
      if (call.isOver) return;
      const flaw = intake.push(piece);
      if (flaw !== null) call.fail(flaw);
    });
    stream.once("end", () => {
      if (call.isOver) return;
      // It is here in time. An answer may go on for as long as the caller likes: who watches waits for a change.
      if (timeoutMs > headTimeoutMs) clearTimeout(late);
      const message = intake.whole();
      intake.forget();
      if (!Buffer.isBuffer(message)) call.fail(message);
      else void this.#handle(method, message, call);
    });
  }

  async #handle(method: GrpcMethod, message: Buffer, call: GrpcCall): Promise<void> {
    try {
      await method.handle(message, call);
    } catch (error) {
      this.#options.onFailure(error);
      call.fail(failures.internal);
    }
  }
}

function ignoreBreak(): void {}

const failures = {
  unknownMethod: { code: grpcCodes.unimplemented, message: "there is no such method here" },
  noTimeout: { code: grpcCodes.invalidArgument, message: "grpc-timeout is not well-formed" },
  late: { code: grpcCodes.deadlineExceeded, message: "the call took too long" },
  internal: { code: grpcCodes.internal, message: "the gateway failed to handle the call" },
} as const;
