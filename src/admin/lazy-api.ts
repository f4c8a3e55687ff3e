// Loads the API when the first call comes. Calls wait meanwhile, within the bounds of their connections. Decides which requests
// are calls of the API.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AdminApi, ApiOptions } from "./api.ts";
import type { AdminConnections } from "./connections.ts";
import { errors, rawAnswer } from "./errors.ts";

type OpenApi = (options: ApiOptions, connections: AdminConnections) => Promise<AdminApi>;

export class LazyApi {
  readonly #options: ApiOptions;
  readonly #connections: AdminConnections;
  readonly #open: OpenApi;
  #api: AdminApi | null = null;
  #loading: Promise<AdminApi> | null = null;

  /** A test replaces `open`. */
  constructor(options: ApiOptions, connections: AdminConnections, open: OpenApi = openApi) {
    this.#options = options;
    this.#connections = connections;
    this.#open = open;
  }

  /** Returns false for a request that is no call of the API: the caller must answer it. */
  handle(request: IncomingMessage, response: ServerResponse): boolean {
    // Other spellings of the path are no calls of the API.
    if (!/^\/api(?:[/?]|$)/.test(request.url ?? "")) return false;
    if (!this.#connections.isUnixSocket(request.socket) && this.#options.access().tokens === null) return false;
    if (this.#api === null) void this.#load(request, response);
    else this.#api.handle(request, response);
    return true;
  }

  async close(): Promise<void> {
    await this.#loading?.catch(this.#options.onFailure);
    await this.#api?.close();
  }

  /** Never rejects. If it fails, the next call tries again. */
  async #load(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      this.#loading ??= this.#open(this.#options, this.#connections);
      this.#api = await this.#loading;
      this.#api.handle(request, response);
    } catch (error) {
      this.#loading = null;
      this.#options.onFailure(error as Error);
      request.socket.end(rawAnswer(errors.failed));
    }
  }
}

async function openApi(options: ApiOptions, connections: AdminConnections): Promise<AdminApi> {
  const { openApi: open } = await import("./api.ts");
  return open(options, connections);
}
