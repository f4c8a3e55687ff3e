// Bounds the connections to the admin listener, the requests on each, and the time to read an answer. A new connection
// always gets a place, so that probes are answered.
import type { RequestListener, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { FairPlaces } from "../core/fair-places.ts";
import { stopParsingWhen } from "../exchange/stop-parsing.ts";

export interface AdminConnectionsOptions {
  /** Peers with the same key share places. */
  readonly peerKey: (address: string | undefined) => string;
  /** Called when a connection is closed to make room for a new one. */
  readonly onClosedForRoom: () => void;
}

/** Scrapers, probes and operators are few, and each connection can hold an unread scrape of 400 KB. */
export const maxAdminConnections = 64;

/** Scrapers and probes do not pipeline requests. */
const maxPipelined = 16;

/** Prometheus waits 10 s for a scrape by default. Without a bound, a client could read its scrape for days. */
export const answerTimeoutMs = 30_000;

/** Calls `onRequest` for each request within the bound of its connection. */
export function serveBounded(server: Server, onRequest: RequestListener, options: AdminConnectionsOptions): void {
  const places = new FairPlaces<Socket>(maxAdminConnections);
  const requests = new WeakMap<Socket, Requests>();
  server.on("connection", (socket) => {
    const evicted = places.take(socket, options.peerKey(socket.remoteAddress));
    if (evicted !== null) {
      options.onClosedForRoom();
      evicted.destroy();
    }
    const inProgress = new Requests(socket, (isBusy) => places.setBusy(socket, isBusy));
    requests.set(socket, inProgress);
    stopParsingWhen(socket, () => socket.destroyed);
    socket.once("close", () => {
      places.leave(socket);
      inProgress.stopTimer();
    });
  });
  server.on("request", (request, response) => {
    if (requests.get(request.socket)?.begin(response) === true) onRequest(request, response);
  });
}

/** The requests in progress on one connection. */
class Requests {
  readonly #socket: Socket;
  readonly #onBusyChange: (isBusy: boolean) => void;
  #count = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(socket: Socket, onBusyChange: (isBusy: boolean) => void) {
    this.#socket = socket;
    this.#onBusyChange = onBusyChange;
  }

  /** Counts a request. Returns false if there are too many: then the connection is closed. */
  begin(response: ServerResponse): boolean {
    this.#count += 1;
    if (this.#count > maxPipelined) {
      this.#socket.destroy();
      return false;
    }
    response.once("close", () => this.#end());
    if (this.#count > 1) return true;
    this.#onBusyChange(true);
    this.#timer = setTimeout(() => this.#socket.destroy(), answerTimeoutMs);
    return true;
  }

  stopTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #end(): void {
    this.#count -= 1;
    if (this.#count > 0) return;
    this.stopTimer();
    this.#onBusyChange(false);
  }
}
