// The API where it exists: over TCP while there is a tokens file, and on the Unix socket. Decides which requests are its
// calls. It is loaded before the first call can arrive, because loading stops the event loop for 40 ms.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AdminApi, ApiOptions } from "./api.ts";
import type { AdminConnections } from "./connections.ts";

export class OptionalApi {
  readonly #options: ApiOptions;
  readonly #connections: AdminConnections;
  #opening: Promise<AdminApi> | null = null;
  #api: AdminApi | null = null;

  constructor(options: ApiOptions, connections: AdminConnections) {
    this.#options = options;
    this.#connections = connections;
  }

  /** Call it before a tokens file is in force, and before the Unix socket is opened. */
  async open(): Promise<void> {
    this.#opening ??= import("./api.ts").then(({ openApi }) => openApi(this.#options, this.#connections));
    this.#api = await this.#opening;
  }

  /** Returns false for a request that is no call of the API: the caller must answer it. */
  handle(request: IncomingMessage, response: ServerResponse): boolean {
    // Other spellings of the path are no calls of the API.
    if (this.#api === null || !/^\/api(?:[/?]|$)/.test(request.url ?? "")) return false;
    if (!this.#connections.isUnixSocket(request.socket) && this.#options.access().tokens === null) return false;
    this.#api.handle(request, response);
    return true;
  }

  async close(): Promise<void> {
    await this.#api?.close();
  }
}
