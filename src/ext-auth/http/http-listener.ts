// The listener on which an ingress asks for checks over HTTP. An untrusted caller is refused before its call is parsed.
// A decided answer carries X-Headgate-Status; an undecided one is a 5xx or no answer. Bodies are discarded.
import { createServer, type Server, type Socket } from "node:net";
import { ignoreError } from "../../core/failure.ts";
import { lingerMs } from "../../exchange/http1-bounds.ts";
import { listen } from "../../exchange/listen.ts";
import type { SharedReads } from "../../exchange/shared-reads.ts";
import type { TextWrites } from "../../exchange/text-writes.ts";
import { HttpCalls, type HttpCallsOptions } from "./http-calls.ts";
import type { NodeCalls } from "./node-calls.ts";
import { RawConnection, type RawConnectionOwner } from "./raw-connection.ts";

export interface ExtAuthHttpOptions extends HttpCallsOptions {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** Whether other threads open the same port. */
  readonly isShared: boolean;
  /** Null: sockets are read as streams. */
  readonly reads: SharedReads | null;
  readonly textWrites: TextWrites;
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

/** Rejects with the system's error if it cannot listen. */
export async function startExtAuthHttp(options: ExtAuthHttpOptions): Promise<ExtAuthHttp> {
  const listener = new HttpListener(options);
  return {
    ...(await listener.listen(options)),
    announceEnd: () => listener.announceEnd(),
    drain: (timeoutMs) => listener.drain(timeoutMs),
  };
}

/** How long a kept connection may bring another call after the port is closed, for calls that are on their way. */
const graceMs = 1000;

/** As in Node's HTTP server: the announced timeout is shorter by this, so that no call is sent while it expires. */
const keepAliveGraceMs = 1000;

class HttpListener implements RawConnectionOwner {
  readonly calls: HttpCalls;
  readonly reads: SharedReads | null;
  readonly textWrites: TextWrites;
  readonly #server: Server;
  readonly #onFailure: (error: unknown) => void;
  readonly #raw = new Set<RawConnection>();
  readonly #sweepMs: number;
  #sweeper: NodeJS.Timeout | null = null;
  /** Null until the first connection is handed off. */
  #node: NodeCalls | null = null;
  #keepAliveMs = Number.NaN;
  #keepAliveLines = "";

  constructor(options: ExtAuthHttpOptions) {
    this.calls = new HttpCalls(options);
    this.reads = options.reads;
    this.textWrites = options.textWrites;
    this.#onFailure = options.onFailure;
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => this.#open(socket));
    this.#sweepMs = Math.min(500, this.calls.settings.headTimeoutMs);
  }

  async listen(options: ExtAuthHttpOptions): Promise<{ readonly host: string; readonly port: number }> {
    const address = await listen(this.#server, options, this.#onFailure);
    this.#sweeper = setInterval(() => this.#sweep(), this.#sweepMs).unref();
    return address;
  }

  announceEnd(): void {
    this.calls.isEnding = true;
  }

  async drain(timeoutMs: number): Promise<void> {
    this.announceEnd();
    const closed = new Promise<void>((resolve) => void this.#server.close(() => resolve()));
    const timers = [
      setTimeout(() => this.#closeIdle(), Math.min(graceMs, timeoutMs)),
      setTimeout(() => this.calls.connections.destroyAll(), timeoutMs),
    ];
    await closed;
    for (const timer of timers) clearTimeout(timer);
    if (this.#sweeper !== null) clearInterval(this.#sweeper);
    this.#node?.close();
  }

  /** The same lines as in Node's own responses. */
  get keepAliveLines(): string {
    const { keepAliveTimeoutMs } = this.calls.settings;
    if (keepAliveTimeoutMs !== this.#keepAliveMs) {
      this.#keepAliveMs = keepAliveTimeoutMs;
      this.#keepAliveLines = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveTimeoutMs / 1000)}\r\n`;
    }
    return this.#keepAliveLines;
  }

  handOff(connection: RawConnection): void {
    this.#raw.delete(connection);
    const { socket } = connection;
    if (this.#node !== null) {
      this.#node.adopt(socket);
      socket.resume();
      return;
    }
    socket.on("error", ignoreError);
    this.#loadNode().then(
      (node) => {
        socket.off("error", ignoreError);
        if (socket.destroyed) return;
        node.adopt(socket);
        socket.resume();
      },
      (error: unknown) => {
        this.#onFailure(error);
        socket.destroy();
      },
    );
  }

  closed(connection: RawConnection): void {
    this.#raw.delete(connection);
  }

  #open(socket: Socket): void {
    if (this.calls.connections.add(socket)) this.#raw.add(new RawConnection(socket, this));
  }

  /** Node's HTTP server takes time and memory to load, and most callers never need it. */
  async #loadNode(): Promise<NodeCalls> {
    const { NodeCalls } = await import("./node-calls.ts");
    this.#node ??= new NodeCalls(this.calls);
    return this.#node;
  }

  #closeIdle(): void {
    for (const { waitsFor, socket } of this.#raw) {
      if (waitsFor === "first-call" || waitsFor === "next-call") socket.destroy();
    }
    this.#node?.closeIdle();
  }

  /** Closes the connections that have waited too long. A decision has timeouts of its own. */
  #sweep(): void {
    const { headTimeoutMs, keepAliveTimeoutMs } = this.calls.settings;
    const maxMs = {
      "first-call": headTimeoutMs,
      "next-call": keepAliveTimeoutMs + keepAliveGraceMs,
      decision: Number.POSITIVE_INFINITY,
      flush: headTimeoutMs,
      end: lingerMs,
    };
    for (const connection of this.#raw) {
      connection.sweeps += 1;
      // The first sweep may have come at once.
      if ((connection.sweeps - 1) * this.#sweepMs >= maxMs[connection.waitsFor]) connection.socket.destroy();
    }
  }
}
