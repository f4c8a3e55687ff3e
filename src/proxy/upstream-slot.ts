// A place for one connection to the upstream: opened with the first request and again after it was closed, so that
// whoever holds the place need not know whether there is one.
import type { Socket } from "node:net";
import { HttpConnection, type ResponseHandler, type UpstreamRequest } from "./http-connection.ts";

export interface UpstreamSlotOptions {
  /** Calls `ready` once, unless the function it returns is called before. */
  readonly connect: (ready: (error: Error | null, socket: Socket | null) => void) => () => void;
  readonly responseTimeoutMs: number;
}

export class UpstreamSlot {
  readonly #options: UpstreamSlotOptions;
  #connection: HttpConnection | null = null;
  #stopConnecting: (() => void) | null = null;

  constructor(options: UpstreamSlotOptions) {
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#connection !== null;
  }

  /** Whether a request that is sent now may meet the close of an idle connection. */
  get isReused(): boolean {
    return this.#connection?.isReused ?? false;
  }

  send(request: UpstreamRequest, handler: ResponseHandler): void {
    if (this.#connection !== null) {
      this.#connection.send(request, handler);
      return;
    }
    this.#stopConnecting = this.#options.connect((error, socket) => {
      this.#stopConnecting = null;
      if (socket === null) {
        handler.onError(error ?? new Error("no connection"), true);
        return;
      }
      const connection = new HttpConnection(socket, {
        responseTimeoutMs: this.#options.responseTimeoutMs,
        onClose: () => {
          if (this.#connection === connection) this.#connection = null;
        },
      });
      this.#connection = connection;
      connection.send(request, handler);
    });
  }

  pause(): void {
    this.#connection?.pause();
  }

  resume(): void {
    this.#connection?.resume();
  }

  /** Takes back what was sent; its handler hears nothing more. Closes the connection in any case. */
  abort(): void {
    this.#stopConnecting?.();
    this.#stopConnecting = null;
    this.#connection?.abort();
  }
}
