// A gRPC server for calls with one request message: HTTP/2 with prior knowledge and a table of methods. Connections,
// concurrent calls, bytes and time are bounded. A call that fails gets a gRPC status that says why.
import { createServer, type Server, type Socket } from "node:net";
import { ClientBytes } from "../../core/client-share.ts";
import { ignoreError } from "../../core/failure.ts";
import { listen } from "../../exchange/listen.ts";
import { FrameBudgets } from "../../http2/frame-reader.ts";
import { GrpcConnection, type GrpcServerOptions, type GrpcShares } from "./connection.ts";

const maxHeldBytes = 16 * 1024 * 1024;
/** How often connections are looked at, at least. */
const maxSweepMs = 500;

export class GrpcServer implements GrpcShares {
  readonly options: GrpcServerOptions;
  readonly held = new ClientBytes(maxHeldBytes);
  readonly #server: Server;
  readonly #connections = new Map<Socket, GrpcConnection>();
  readonly #budgets: FrameBudgets;
  #sweeper: NodeJS.Timeout | null = null;

  constructor(options: GrpcServerOptions) {
    this.options = options;
    this.#budgets = new FrameBudgets(options.nowMs);
    this.#server = createServer({ noDelay: true }, (socket) => this.#onConnection(socket));
  }

  /** Rejects with the system's error if it cannot listen. */
  async listen(host: string, port: number, isShared = false): Promise<{ host: string; port: number }> {
    const { settings, lingerMs, onFailure } = this.options;
    const { headTimeoutMs, keepAliveTimeoutMs } = settings.current;
    const address = await listen(this.#server, { host, port, isShared }, onFailure);
    const sweepMs = Math.min(maxSweepMs, headTimeoutMs, keepAliveTimeoutMs, lingerMs);
    this.#sweeper = setInterval(() => this.#sweep(sweepMs), sweepMs).unref();
    return address;
  }

  /** Takes no new connections and calls. Resolves with the number of calls that were broken off after the timeout. */
  async drain(timeoutMs: number): Promise<number> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const connection of this.#connections.values()) connection.end();
    let brokenOff = 0;
    const timer = setTimeout(() => {
      for (const [socket, { openCalls }] of this.#connections) {
        brokenOff += openCalls;
        socket.destroy();
      }
    }, timeoutMs);
    await closed;
    clearTimeout(timer);
    if (this.#sweeper !== null) clearInterval(this.#sweeper);
    return brokenOff;
  }

  closed(socket: Socket): void {
    this.#connections.delete(socket);
  }

  #onConnection(socket: Socket): void {
    const { connections } = this.options;
    if (connections.admit(socket)) {
      const budget = this.#budgets.open(connections.isTrusted(socket) ? null : connections.peerKey(socket));
      this.#connections.set(socket, new GrpcConnection(socket, budget, this));
      return;
    }
    // Without a listener the error would end the process.
    socket.on("error", ignoreError);
    socket.destroy();
  }

  #sweep(sweepMs: number): void {
    for (const connection of this.#connections.values()) connection.sweep(sweepMs);
  }
}
