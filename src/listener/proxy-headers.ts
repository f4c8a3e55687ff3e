// Connections that have not said yet who they are: with `listen.proxyProtocol` each begins with a PROXY header, and
// none is shown to the HTTP parser without one. Bounded in bytes and in time; what came behind the header goes to the
// parser unchanged.
import type { Socket } from "node:net";
import { type ProxyHeaderRefusal, readProxyHeader } from "../core/proxy-header.ts";

export interface Introduction {
  /** Whom the header names; null if it speaks of the socket's own peer. */
  readonly source: string | null;
  /** Bytes read from the socket that are no HTTP. */
  readonly byteCount: number;
}

export interface ProxyHeadersOptions {
  readonly timeoutMs: number;
  readonly onRefused: (reason: ProxyHeaderRefusal) => void;
}

export class ProxyHeaders {
  readonly #options: ProxyHeadersOptions;
  readonly #waiting = new Set<Socket>();

  constructor(options: ProxyHeadersOptions) {
    this.#options = options;
  }

  /**
   * Calls `serve` when the header is there, with the socket as if it had not been read, and paused; or closes the
   * connection.
   */
  read(socket: Socket, serve: (introduction: Introduction) => void): void {
    this.#waiting.add(socket);
    let received: Buffer = Buffer.alloc(0);
    const leave = (): void => {
      this.#waiting.delete(socket);
      clearTimeout(timer);
      socket.off("data", onData).off("end", onEnd).off("close", onClose);
    };
    const refuse = (reason: ProxyHeaderRefusal): void => {
      leave();
      this.#options.onRefused(reason);
      socket.destroy();
    };
    const onData = (data: Buffer): void => {
      received = received.length === 0 ? data : Buffer.concat([received, data]);
      const header = readProxyHeader(received);
      if (header.kind === "invalid") refuse("invalid");
      if (header.kind !== "complete") return;
      leave();
      socket.off("error", ignoreReset);
      // So that nothing flows while nobody listens.
      socket.pause();
      const rest = received.subarray(header.byteCount);
      if (rest.length > 0) socket.unshift(rest);
      serve(header);
    };
    // The server keeps half-closed connections open, for HTTP's sake.
    const onEnd = (): void => void socket.destroy();
    const onClose = (): void => {
      leave();
      // A balancer that only looks whether the port is open says nothing, which is no refusal.
      if (received.length > 0) this.#options.onRefused("incomplete");
    };
    const timer = setTimeout(() => refuse("timeout"), this.#options.timeoutMs);
    socket.on("error", ignoreReset);
    socket.on("data", onData).on("end", onEnd).on("close", onClose);
  }

  /** Those that have not sent a byte wait for nothing that could get lost. */
  endSilent(): void {
    for (const socket of this.#waiting) if (socket.bytesRead === 0) socket.destroy();
  }

  destroyAll(): void {
    for (const socket of this.#waiting) socket.destroy();
  }
}

function ignoreReset(): void {}
