// The listener on which an ingress asks for checks over HTTP. An untrusted caller is refused before its check is read.
// A decided answer carries X-Headgate-Status; an undecided one is a 5xx or no answer. Bodies are discarded.
import { createServer, type Server, type Socket } from "node:net";
import { closeMs } from "../../core/http-bounds.ts";
import type { HostPort } from "../../core/ip-address.ts";
import { listen } from "../../exchange/listen.ts";
import { CallerConnections } from "../caller-connections.ts";
import type { CheckSettings } from "../trusted-callers.ts";
import { CallConnection, type CallOwner, type ExtAuthHttpOptions } from "./call-connection.ts";

export interface ExtAuthHttp extends HostPort {
  /** From now on every answer closes its connection. New connections are still accepted. */
  announceEnd(): void;
  /** Accepts no new connections. Resolves when the last one is closed, at the latest after the timeout. */
  drain(timeoutMs: number): Promise<void>;
}

/** Rejects with the system's error if it cannot listen. */
export async function startExtAuthHttp(options: ExtAuthHttpOptions): Promise<ExtAuthHttp> {
  const listener = new HttpListener(options);
  return Object.assign(listener, await listener.listen());
}

/** How long a kept connection may bring another call after the port is closed, for calls that are on their way. */
const graceMs = 1000;

/** As in Node's HTTP server: the announced timeout is shorter by this, so that no call is sent while it expires. */
const keepAliveGraceMs = 1000;

class HttpListener implements CallOwner {
  readonly options: ExtAuthHttpOptions;
  readonly connections: CallerConnections;
  isEnding = false;
  readonly #server: Server;
  readonly #open = new Set<CallConnection>();
  readonly #sweepMs: number;
  #sweeper: NodeJS.Timeout | null = null;
  #keepAliveMs = Number.NaN;
  #keepAliveLines = "";

  constructor(options: ExtAuthHttpOptions) {
    this.options = options;
    this.connections = new CallerConnections(options, "http");
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => this.#onConnection(socket));
    this.#sweepMs = Math.min(500, this.settings.headTimeoutMs);
  }

  get settings(): CheckSettings {
    return this.options.settings.current;
  }

  async listen(): Promise<HostPort> {
    const address = await listen(this.#server, this.options, this.options.onFailure);
    // Behind the reads of this turn: a call that has arrived is answered.
    this.#sweeper = setInterval(() => setImmediate(() => this.#sweep()), this.#sweepMs).unref();
    return address;
  }

  announceEnd(): void {
    this.isEnding = true;
  }

  async drain(timeoutMs: number): Promise<void> {
    this.announceEnd();
    const closed = new Promise<void>((resolve) => void this.#server.close(() => resolve()));
    const timers = [
      setTimeout(() => this.#closeIdle(), Math.min(graceMs, timeoutMs)),
      setTimeout(() => this.connections.destroyAll(), timeoutMs),
    ];
    await closed;
    for (const timer of timers) clearTimeout(timer);
    if (this.#sweeper !== null) clearInterval(this.#sweeper);
  }

  get keepAliveLines(): string {
    const { keepAliveTimeoutMs } = this.settings;
    if (keepAliveTimeoutMs !== this.#keepAliveMs) {
      this.#keepAliveMs = keepAliveTimeoutMs;
      this.#keepAliveLines = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveTimeoutMs / 1000)}\r\n`;
    }
    return this.#keepAliveLines;
  }

  closed(connection: CallConnection): void {
    this.#open.delete(connection);
  }

  #onConnection(socket: Socket): void {
    if (this.connections.admit(socket)) this.#open.add(new CallConnection(socket, this));
  }

  #closeIdle(): void {
    for (const { waitsFor, socket } of this.#open) {
      if (waitsFor === "first-call" || waitsFor === "next-call") socket.destroy();
    }
  }

  /** Closes the connections that have waited too long. A decision has timeouts of its own. */
  #sweep(): void {
    const { headTimeoutMs, keepAliveTimeoutMs } = this.settings;
    const maxMs = {
      "first-call": headTimeoutMs,
      "next-call": keepAliveTimeoutMs + keepAliveGraceMs,
      head: headTimeoutMs,
      decision: Number.POSITIVE_INFINITY,
      flush: headTimeoutMs,
      // It is not used, so it gets no more time than a head.
      body: headTimeoutMs,
      end: closeMs,
    };
    for (const connection of this.#open) {
      connection.sweeps += 1;
      const { waitsFor, socket } = connection;
      // An ingress may keep a connection among its idle ones before its first call.
      const waits = waitsFor === "first-call" && this.connections.isTrusted(socket) ? "next-call" : waitsFor;
      // The first sweep may have come at once.
      if ((connection.sweeps - 1) * this.#sweepMs >= maxMs[waits]) connection.expire();
    }
  }
}
