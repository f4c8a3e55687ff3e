// The gRPC listener: Envoy's two services and the health check. Loaded only if the listener is configured.

import { createServer, type Server, type Socket } from "node:net";
import { ClientBytes } from "../../core/client-share.ts";
import type { Http2CloseReason, Http2ResetReason } from "../../core/connection-ends.ts";
import { ignoreError } from "../../core/failure.ts";
import { headerValues } from "../../core/headers.ts";
import { closeMs } from "../../core/http-bounds.ts";
import type { HostPort } from "../../core/ip-address.ts";
import { listen } from "../../exchange/listen.ts";
import { PeerTurns } from "../../exchange/peer-turns.ts";
import { FrameBudgets } from "../../http2/frame-reader.ts";
import { CallerConnections, type CheckListenerOptions } from "../caller-connections.ts";
import { checkProblems } from "../check.ts";
import { authorization } from "./authorization.ts";
import { type GrpcCall, type GrpcMethod, type GrpcStatus, grpcCodes, statuses } from "./call.ts";
import { GrpcConnection, type GrpcServerOptions, type GrpcShares } from "./connection.ts";
import { HealthService } from "./health.ts";
import { rateLimit } from "./rate-limit.ts";

export interface ExtAuthGrpcOptions extends CheckListenerOptions {
  readonly nowMs: () => number;
  /** Called when a connection is closed because it costs too much. `caller` is an address. */
  readonly onHttp2Closed: (reason: Http2CloseReason, caller: string) => void;
  /** Called when a stream is reset because of a limit. */
  readonly onHttp2Reset: (reason: Http2ResetReason) => void;
}

export interface ExtAuthGrpc extends HostPort {
  /** Sets what the health check reports. It starts as not serving. */
  setServing(isServing: boolean): void;
  /** Resolves with the number of calls that were broken off. */
  drain(timeoutMs: number): Promise<number>;
}

const services = {
  authorization: "envoy.service.auth.v3.Authorization",
  rateLimit: "envoy.service.ratelimit.v3.RateLimitService",
  health: "grpc.health.v1.Health",
} as const;

/** Envoy accepts heads of 60 KiB by default, and may add certificates and metadata. */
const maxCheckBytes = 256 * 1024;
const maxHealthBytes = 1024;
/** A probe has one call at a time. A caller with a secret is trusted from its first call on. */
const maxUnverifiedCalls = 16;

/** Rejects with the system's error if it cannot listen. */
export async function startExtAuthGrpc(options: ExtAuthGrpcOptions): Promise<ExtAuthGrpc> {
  const { settings, checks, nowMs, onRefused } = options;
  const health = new HealthService([services.authorization, services.rateLimit]);
  const connections = new CallerConnections(options, "grpc");
  const forTrusted = (maxMessageBytes: number, handle: GrpcMethod["handle"]): GrpcMethod => ({
    maxMessageBytes,
    admits({ socket, address, rawHeaders }) {
      if (!settings.current.callers.admits(address, rawHeaders)) return statuses.untrusted;
      connections.promote(socket);
      return null;
    },
    handle,
  });
  // The probe of an orchestrator has no secret, and learns only whether to send calls.
  const probe: GrpcMethod = { maxMessageBytes: maxHealthBytes, admits: () => null, handle: health.check };
  const onTooManyHeaders = ({ address }: GrpcCall): void =>
    onRefused("malformed", address, checkProblems.headTooLarge.errMsg);
  const server = new GrpcServer({
    ...options,
    methods: new Map([
      [`/${services.authorization}/Check`, forTrusted(maxCheckBytes, authorization(checks, onTooManyHeaders))],
      [`/${services.rateLimit}/ShouldRateLimit`, forTrusted(maxCheckBytes, rateLimit(checks, nowMs))],
      [`/${services.health}/Check`, probe],
      [`/${services.health}/Watch`, forTrusted(maxHealthBytes, health.watch)],
    ]),
    ...{ connections, maxUnverifiedCalls, closeMs },
    onCallFailed: (call, status) => countFailedCheck(call, status, onRefused),
  });
  const address = await server.listen(options.host, options.port, options.isPortShared);
  return {
    ...address,
    setServing: (isServing) => health.setServing(isServing),
    async drain(timeoutMs) {
      health.setServing(false);
      health.close();
      return server.drain(timeoutMs);
    },
  };
}

/** Health calls are no checks, and a bug or the end of the gateway is no fault of the caller. */
function countFailedCheck(
  { address, rawHeaders }: GrpcCall,
  { code, message }: GrpcStatus,
  onRefused: ExtAuthGrpcOptions["onRefused"],
): void {
  const [path = ""] = headerValues(rawHeaders, ":path");
  if (path.startsWith(`/${services.health}/`) || code === grpcCodes.internal || code === grpcCodes.unavailable) return;
  onRefused(code === grpcCodes.permissionDenied ? "untrusted" : "malformed", address, message);
}

const maxHeldBytes = 16 * 1024 * 1024;
/** How often connections are looked at, at least. */
const maxSweepMs = 500;

/**
 * A gRPC server for calls with one request message: HTTP/2 with prior knowledge and a table of methods. Connections,
 * concurrent calls, bytes and time are bounded. A call that fails gets a gRPC status that says why.
 */
export class GrpcServer implements GrpcShares {
  readonly options: GrpcServerOptions;
  readonly held = new ClientBytes(maxHeldBytes);
  readonly #server: Server;
  readonly #connections = new Map<Socket, GrpcConnection>();
  readonly #budgets: FrameBudgets;
  readonly #turns = new PeerTurns();
  #sweeper: NodeJS.Timeout | null = null;

  constructor(options: GrpcServerOptions) {
    this.options = options;
    this.#budgets = new FrameBudgets(options.nowMs);
    this.#server = createServer({ noDelay: true }, (socket) => this.#onConnection(socket));
  }

  /** Rejects with the system's error if it cannot listen. */
  async listen(host: string, port: number, isPortShared = false): Promise<HostPort> {
    const { settings, closeMs, onFailure } = this.options;
    const { headTimeoutMs, keepAliveTimeoutMs } = settings.current;
    const address = await listen(this.#server, { host, port, isPortShared }, onFailure);
    const sweepMs = Math.min(maxSweepMs, headTimeoutMs, keepAliveTimeoutMs, closeMs);
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
      const peer = connections.isTrusted(socket) ? null : connections.peerKey(socket);
      const [budget, turn] = [this.#budgets.open(peer), this.#turns.add(socket, peer)];
      this.#connections.set(socket, new GrpcConnection(socket, budget, turn, this));
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
