// What a gRPC server is made of: its methods, its bounds on connections, its times, and how sockets are read and written.
import type { Socket } from "node:net";
import type { ClientBytes } from "../../core/client-share.ts";
import type { Http2CloseReason, Http2ResetReason } from "../../core/connection-ends.ts";
import type { Replaceable } from "../../core/traffic-settings.ts";
import type { SharedReads } from "../../exchange/shared-reads.ts";
import type { TextWrites } from "../../exchange/text-writes.ts";
import type { GrpcCall, GrpcMethod } from "./call.ts";
import type { GrpcStatus } from "./status.ts";

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
  /** Null: sockets are read as streams. */
  readonly reads: SharedReads | null;
  readonly textWrites: TextWrites;
  readonly settings: Readonly<Replaceable<GrpcTimes>>;
  /** How long a caller may keep its connection open after the GOAWAY and its last call. */
  readonly lingerMs: number;
  /** Called when a stream is reset because of a limit. */
  readonly onReset: (reason: Http2ResetReason) => void;
  /** Called when a call ends without a message. */
  readonly onCallFailed: (call: GrpcCall, status: GrpcStatus) => void;
  readonly onFailure: (error: unknown) => void;
}

/** What the connections of one listener share. */
export interface GrpcShares {
  readonly options: GrpcServerOptions;
  /** The memory of the incomplete messages of all callers. */
  readonly held: ClientBytes;
  /** A connection is closed. */
  closed(socket: Socket): void;
}
