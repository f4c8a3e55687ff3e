// One connection to the gRPC port: hands calls to their methods. While the system does not take what was written, nothing more
// is read. Ends connections that are idle, that stall, or that are asked to end.
import type { Socket } from "node:net";
import type { ClientBytes } from "../../core/client-share.ts";
import type { Http2CloseReason, Http2ResetReason } from "../../core/connection-ends.ts";
import { ignoreError } from "../../core/failure.ts";
import { type HeaderList, headerValue } from "../../core/headers.ts";
import type { Replaceable } from "../../core/settings.ts";
import { type DrivenConnection, Http2Driver } from "../../exchange/http2-driver.ts";
import { type PeerTurn, textSteps } from "../../exchange/peer-turns.ts";
import type { TextWrites } from "../../exchange/socket-writes.ts";
import type { SharedReads } from "../../exchange/sockets.ts";
import type { FrameBudget } from "../../http2/frame-reader.ts";
import { encodeFields } from "../../http2/hpack.ts";
import { errorCodes } from "../../http2/protocol.ts";
import type { Http2Stream } from "../../http2/responses.ts";
import { type Http2Event, Http2Session } from "../../http2/session.ts";
import type { CallerConnections } from "../caller-connections.ts";
import {
  type CallWriter,
  GrpcCall,
  type GrpcMethod,
  type GrpcStatus,
  grpcCodes,
  MessageReader,
  onlyMessage,
  readTimeoutMs,
  statuses,
} from "./call.ts";

/** Envoy opens another connection for more. */
const maxCallsPerConnection = 100;

const checkUnreadMs = 2_000;
/** How long the system may not take what was written. */
const maxFlushMs = 10_000;

const notGrpc = encodeFields([":status", "415"]);
const headTooLarge = encodeFields([":status", "431"]);

/** What a head asks for, read once for all calls with the same head. */
interface GrpcHead {
  readonly fields: HeaderList;
  /** Not gRPC, so the answer is a status of HTTP. */
  readonly refusal: string | null;
  readonly method: GrpcMethod | undefined;
  readonly timeoutMs: number | undefined;
}

/** What a connection waits for, which bounds how long it may take. `ack`: that the client has read the first GOAWAY. */
type GrpcWait = "first-call" | "calls" | "next-call" | "ack" | "close";

export class GrpcConnection implements CallWriter, DrivenConnection<GrpcCall> {
  readonly socket: Socket;
  readonly address: string;
  readonly #shares: GrpcShares;
  /** Those that were current when the connection was accepted. */
  readonly #times: GrpcTimes;
  readonly #budget: FrameBudget;
  readonly #turn: PeerTurn;
  readonly #peerKey: string;
  readonly #session: Http2Session<GrpcCall>;
  readonly #driver: Http2Driver<GrpcCall>;
  #lastHead: GrpcHead | null = null;
  /** The calls that were begun in this turn. */
  #begun: GrpcCall[] = [];
  #isBusy = false;
  #waitsFor: GrpcWait = "first-call";
  /** Sweeps since it began to wait, since a head began, since a write began, and since unread responses were looked for. */
  #sweeps = 0;
  #headSweeps = 0;
  #endedHeads = 0;
  #flushSweeps = 0;
  #unreadSweeps = 0;

  constructor(socket: Socket, budget: FrameBudget, turn: PeerTurn, shares: GrpcShares) {
    this.socket = socket;
    this.address = socket.remoteAddress ?? "";
    this.#shares = shares;
    this.#budget = budget;
    this.#turn = turn;
    const { settings, nowMs, reads, textWrites, connections } = shares.options;
    this.#peerKey = connections.peerKey(socket);
    this.#times = settings.current;
    const bounds = { maxStreams: maxCallsPerConnection, maxHeaderBytes: this.#times.headBounds.maxBytes };
    this.#session = new Http2Session({ budget, turn, nowMs, ...bounds });
    socket.on("error", ignoreError).on("close", () => this.#onClose());
    this.#driver = new Http2Driver(socket, this.#session, this, turn, 0, reads, textWrites);
    this.#driver.settle();
  }

  get openCalls(): number {
    return this.#session.streams.size;
  }

  /** Takes no new calls, and closes the connection after its last call. */
  end(): void {
    this.#session.beginEnd();
    this.#driver.settle();
  }

  respond(stream: Http2Stream<GrpcCall>, block: string, isEnd: boolean): void {
    this.#session.respond(stream, block, isEnd);
    this.#driver.settleLater();
  }

  write(stream: Http2Stream<GrpcCall>, piece: string): void {
    this.#session.write(stream, piece);
    this.#driver.settleLater();
  }

  finish(stream: Http2Stream<GrpcCall>, trailers: string): void {
    this.#session.end(stream, trailers);
    this.#driver.settleLater();
  }

  /** Call it at intervals. */
  sweep(sweepMs: number): void {
    const session = this.#session;
    // The first sweep may have come at once.
    const hasLasted = (sweeps: number, ms: number): boolean => (sweeps - 1) * sweepMs >= ms;
    this.#sweeps += 1;
    this.#headSweeps = session.isInHead && session.endedHeads === this.#endedHeads ? this.#headSweeps + 1 : 0;
    this.#endedHeads = session.endedHeads;
    this.#flushSweeps = this.#driver.isFlushing ? this.#flushSweeps + 1 : 0;
    this.#unreadSweeps = session.streams.size > 0 ? this.#unreadSweeps + 1 : 0;
    if (hasLasted(this.#flushSweeps, maxFlushMs)) this.socket.destroy();
    if (hasLasted(this.#headSweeps, this.#times.headTimeoutMs)) session.fail(errorCodes.enhanceYourCalm);
    if (hasLasted(this.#unreadSweeps, checkUnreadMs)) {
      this.#unreadSweeps = 1;
      const unread = session.resetUnread(false);
      for (let i = 0; i < unread; i += 1) this.#shares.options.onHttp2Reset("unread");
    }
    this.#endIfLate((ms) => hasLasted(this.#sweeps, ms));
    this.#driver.settle();
  }

  /** `lasts`: whether the connection has waited for so long. */
  #endIfLate(lasts: (ms: number) => boolean): void {
    const { headTimeoutMs, keepAliveTimeoutMs } = this.#times;
    const { closeMs, connections } = this.#shares.options;
    const session = this.#session;
    switch (this.#waitsFor) {
      case "first-call":
        // As on HTTP: an ingress may keep the connection among its idle ones.
        if (lasts(connections.isTrusted(this.socket) ? keepAliveTimeoutMs : headTimeoutMs)) session.beginEnd();
        break;
      case "next-call":
        if (lasts(keepAliveTimeoutMs)) session.beginEnd();
        break;
      case "ack":
        if (lasts(closeMs)) session.finishEnd();
        break;
      case "calls":
        // A Watch may be silent for hours, but not on a connection that is ending: the caller calls again elsewhere.
        if (session.isEnding && lasts(keepAliveTimeoutMs)) this.socket.destroy();
        break;
      case "close":
        if (lasts(closeMs)) this.socket.destroy();
    }
  }

  onEvent(event: Http2Event<GrpcCall>): void {
    switch (event.kind) {
      case "request":
        this.#onRequest(event);
        return;
      case "data":
        this.#onData(event);
        return;
      case "malformed":
        this.#shares.options.onHttp2Reset("malformed");
        return;
      case "over":
        if (event.reason !== null) this.#shares.options.onHttp2Closed(event.reason, this.address);
    }
  }

  #onRequest({ stream, fields, isEnd, isTooLarge }: Extract<Http2Event<GrpcCall>, { kind: "request" }>): void {
    const { connections, onCallFailed } = this.#shares.options;
    if (!this.#isBusy) connections.setBusy(this.socket, true);
    this.#isBusy = true;
    if (!this.#session.isEnding) this.#wait("calls");
    const last = this.#lastHead;
    const head = last !== null && last.fields === fields ? last : this.#readHead(fields, isTooLarge);
    if (head.refusal !== null) {
      this.#session.respond(stream, head.refusal, true);
      return;
    }
    const call = new GrpcCall(this, stream, fields, onCallFailed);
    stream.owner = call;
    const { method, timeoutMs } = head;
    if (method === undefined) call.fail(failures.unknownMethod);
    else if (timeoutMs === undefined) call.fail(failures.noTimeout);
    else this.#take(call, method, timeoutMs);
    if (isEnd && !call.isOver) this.#onMessage(call);
  }

  #readHead(fields: HeaderList, isTooLarge: boolean): GrpcHead {
    const { methods } = this.#shares.options;
    const isGrpc =
      headerValue(fields, ":method") === "POST" &&
      /^application\/grpc(?:\+proto)?(?:;|$)/.test(headerValue(fields, "content-type") ?? "");
    this.#lastHead = {
      fields,
      refusal: isTooLarge ? headTooLarge : isGrpc ? null : notGrpc,
      method: methods.get(headerValue(fields, ":path") ?? ""),
      timeoutMs: readTimeoutMs(headerValue(fields, "grpc-timeout") ?? "8H"),
    };
    return this.#lastHead;
  }

  #take(call: GrpcCall, method: GrpcMethod, timeoutMs: number): void {
    // First, because a secret in the call raises the bound.
    const refused = method.admits(call);
    const { connections, maxUnverifiedCalls } = this.#shares.options;
    const isTrusted = connections.isTrusted(this.socket);
    if (refused === null && isTrusted) this.#turn.trust();
    const isOneTooMany = !isTrusted && this.openCalls > maxUnverifiedCalls;
    if (refused !== null || isOneTooMany) {
      call.fail(refused ?? failures.tooManyCalls);
      return;
    }
    call.method = method;
    call.timeoutMs = timeoutMs;
    this.#begun.push(call);
  }

  #onData({ stream, bytes, isEnd }: Extract<Http2Event<GrpcCall>, { kind: "data" }>): void {
    this.#session.used(stream, bytes.length);
    const call = stream.owner;
    if (call === null || call.method === null || call.isOver) return;
    const message = isEnd && call.reader === null ? onlyMessage(bytes, call.method.maxMessageBytes) : null;
    if (message !== null) {
      this.#handle(call, call.method, message);
      return;
    }
    call.reader ??= new MessageReader(call.method.maxMessageBytes, this.#shares.held, this.#peerKey);
    const flaw = call.reader.push(bytes);
    if (flaw !== null) call.fail(flaw);
    else if (isEnd) this.#onMessage(call);
  }

  /** The request has ended. */
  #onMessage(call: GrpcCall): void {
    const { method } = call;
    if (method === null) return;
    const reader = call.reader ?? new MessageReader(method.maxMessageBytes, this.#shares.held, this.#peerKey);
    const message = reader.whole();
    reader.release();
    if (Buffer.isBuffer(message)) this.#handle(call, method, message);
    else call.fail(message);
  }

  #handle(call: GrpcCall, method: GrpcMethod, message: Buffer): void {
    call.isWhole = true;
    this.#turn.stepsLeft -= textSteps(message.length);
    if (call.timer !== null && call.timeoutMs > this.#times.headTimeoutMs) clearTimeout(call.timer);
    try {
      method.handle(message, call);
    } catch (error) {
      this.#shares.options.onFailure(error);
      call.fail(statuses.internal);
    }
  }

  onStreamClosed(call: GrpcCall): void {
    call.closed();
  }

  /** Nobody waits for it: messages are short. */
  onStreamDrained(): void {}

  onSettling(): void {
    if (this.#isBusy && this.openCalls === 0) {
      this.#isBusy = false;
      this.#shares.options.connections.setBusy(this.socket, false);
    }
    if (this.#begun.length > 0) this.#startTimers();
  }

  onSettled(): void {
    if (this.#session.isFinished && !this.#driver.isFlushing) this.#close();
    else this.#wait(this.#nextWait());
  }

  #nextWait(): GrpcWait {
    const session = this.#session;
    if (this.#waitsFor === "close") return "close";
    if (session.isAwaitingAck) return "ack";
    if (session.streams.size > 0) return "calls";
    return this.#waitsFor === "first-call" ? "first-call" : "next-call";
  }

  #wait(waitsFor: GrpcWait): void {
    if (this.#waitsFor === waitsFor) return;
    this.#waitsFor = waitsFor;
    this.#sweeps = 0;
  }

  /**
   * Most calls are answered in the turn in which they come, and need no timer. Where the caller waits longer than the message
   * may take, the answer may be late: a watcher waits for a change.
   */
  #startTimers(): void {
    const { headTimeoutMs } = this.#times;
    for (const call of this.#begun.splice(0)) {
      if (call.isOver || (call.isWhole && call.timeoutMs > headTimeoutMs)) continue;
      call.timer = setTimeout(failLate, Math.min(call.timeoutMs, headTimeoutMs), call);
    }
  }

  /** The client may still read what was written. After an error nothing more is read from it. */
  #close(): void {
    if (this.#waitsFor === "close") return;
    this.#wait("close");
    this.#driver.stop();
    if (this.#session.isOver) this.socket.pause();
    if (!this.socket.destroyed) this.socket.end();
  }

  #onClose(): void {
    this.#session.close();
    this.#driver.settle();
    this.#budget.close();
    this.#turn.leave();
    this.#shares.closed(this.socket);
  }
}

function failLate(call: GrpcCall): void {
  call.fail(failures.late);
}

const failures = {
  unknownMethod: { code: grpcCodes.unimplemented, message: "there is no such method here" },
  noTimeout: { code: grpcCodes.invalidArgument, message: "grpc-timeout is not well-formed" },
  tooManyCalls: { code: grpcCodes.resourceExhausted, message: "too many calls at once" },
  late: { code: grpcCodes.deadlineExceeded, message: "the call took too long" },
} as const;

/** The bounds on connections. */
export type GrpcConnections = Pick<CallerConnections, "admit" | "setBusy" | "isTrusted" | "peerKey">;

export interface GrpcTimes {
  /** Of the head of a call. */
  readonly headBounds: { readonly maxBytes: number };
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
  readonly closeMs: number;
  /** Calls in progress at once of a connection that is not trusted; more are refused. */
  readonly maxUnverifiedCalls: number;
  /** Called when a connection is closed because it costs too much. `caller` is an address. */
  readonly onHttp2Closed: (reason: Http2CloseReason, caller: string) => void;
  /** Called when a stream is reset because of a limit. */
  readonly onHttp2Reset: (reason: Http2ResetReason) => void;
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
