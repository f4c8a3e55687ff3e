// With `listen.proxyProtocol` each connection begins with a PROXY header, and the HTTP parser sees none without one. The
// header is bounded in bytes and in time; what follows it reaches the parser unchanged.
import type { Socket } from "node:net";
import { type ProxyHeaderRefusal, readProxyHeader } from "../core/proxy-header.ts";

export interface Introduction {
  /** The address in the header; null if the header stands for the socket's own peer. */
  readonly source: string | null;
  /** Length of the header. */
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

  /** Calls `serve` when the header is complete, with the rest unread and the socket paused; or closes the connection. */
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
      // Without a listener, flowing data would be lost.
      socket.pause();
      const rest = received.subarray(header.byteCount);
      if (rest.length > 0) socket.unshift(rest);
      serve(header);
    };
    // The server keeps half-closed connections open, because HTTP allows them.
    const onEnd = (): void => void socket.destroy();
    const onClose = (): void => {
      leave();
      // A balancer that only checks whether the port is open sends nothing, which is not an error.
      if (received.length > 0) this.#options.onRefused("incomplete");
    };
    const timer = setTimeout(() => refuse("timeout"), this.#options.timeoutMs);
    socket.on("error", ignoreReset);
    socket.on("data", onData).on("end", onEnd).on("close", onClose);
  }

  /** Closes the connections that have not sent a byte: no request of theirs can get lost. */
  endSilent(): void {
    for (const socket of this.#waiting) if (socket.bytesRead === 0) socket.destroy();
  }

  destroyAll(): void {
    for (const socket of this.#waiting) socket.destroy();
  }
}

function ignoreReset(): void {}
