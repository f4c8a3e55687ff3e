// Bounds the connections to the admin listener, the requests on each, and the time to read an answer. A new connection
// always gets a place, so that probes are answered.
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { ignoreError } from "../core/failure.ts";
import { FairPlaces } from "../core/fair-places.ts";

export interface AdminConnectionsOptions {
  /** Peers with the same key share places. */
  readonly peerKey: (address: string | undefined) => string;
  /** Called when a connection is closed to make room for a new one. */
  readonly onClosedForRoom: () => void;
}

/** Scrapers, probes and operators are few, and each connection can hold an unread scrape of 400 KB. */
export const maxAdminConnections = 64;

/** Scrapers and probes do not pipeline requests. All scrapes that wait are answered in one turn of the event loop. */
const maxPipelined = 2;

/** Prometheus waits 10 s for a scrape by default. Without a bound, a client could read its scrape for days. */
export const answerTimeoutMs = 30_000;

export class AdminConnections {
  readonly #options: AdminConnectionsOptions;
  readonly #places = new FairPlaces<Socket>(maxAdminConnections);
  readonly #requests = new WeakMap<Socket, Requests>();

  constructor(options: AdminConnectionsOptions) {
    this.#options = options;
  }

  /** Gives a new connection its place. */
  accept(socket: Socket): void {
    const { peerKey, onClosedForRoom } = this.#options;
    const evicted = this.#places.take(socket, peerKey(socket.remoteAddress));
    if (evicted !== null) {
      onClosedForRoom();
      evicted.destroy();
    }
    const inProgress = new Requests(socket, (isBusy) => this.#places.setBusy(socket, isBusy));
    this.#requests.set(socket, inProgress);
    socket.on("error", ignoreError);
    socket.once("close", () => {
      this.#places.leave(socket);
      inProgress.stopTimer();
    });
  }

  /** Counts a request. Returns false if its connection has too many: then the connection is closed. */
  begin(socket: Socket, response: ServerResponse): boolean {
    return this.#requests.get(socket)?.begin(response) === true;
  }

  destroyAll(): void {
    for (const socket of this.#places.connections()) socket.destroy();
  }
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
