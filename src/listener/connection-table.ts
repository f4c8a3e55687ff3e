// The open connections of clients, and the idle ones in the order of their idle time. A connection leaves the table when
// its socket closes. Idle connections are a linked list, because each request takes its connection out and puts it back.
import type { ClientConnection, ConnectionPlace, ConnectionRegistry } from "../exchange/connection.ts";
import { inPortions } from "../exchange/portions.ts";

/** A connection that has been idle for so long is not expected to be used again soon. */
const forgetAfterMs = 5_000;

export class ConnectionTable implements ConnectionRegistry {
  readonly #places = new Set<Place>();
  readonly #idle: IdleList;
  readonly #nowMs: () => number;
  #isEnding = false;
  #isSweeping = false;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#idle = new IdleList(nowMs);
  }

  get idleCount(): number {
    return this.#idle.count;
  }

  add(connection: ClientConnection): void {
    const place = new Place(connection, this.#places, this.#idle);
    connection.place = place;
    this.#places.add(place);
    this.#idle.append(place);
    if (this.#isEnding) connection.endWhenIdle();
  }

  /** Returns the connection that has been idle longest. It is not returned again before its next request has ended. */
  takeIdle(): ClientConnection | undefined {
    const { first } = this.#idle;
    if (first === null) return undefined;
    this.#idle.remove(first);
    return first.connection;
  }

  /**
   * Closes, in portions, the connections that have been idle for their maximum time, and those that are stalled. Connections
   * that have been idle for a while give up what they remember.
   */
  async sweep(): Promise<void> {
    if (this.#isSweeping) return;
    this.#isSweeping = true;
    const nowMs = this.#nowMs();
    await inPortions(this.#places, (place) => {
      const { connection, isIdle, sinceMs } = place;
      if (!isIdle) {
        connection.endStalled(nowMs);
      } else if (nowMs - sinceMs >= connection.idleTimeoutMs) {
        this.#idle.remove(place);
        connection.socket.destroy();
      } else if (nowMs - sinceMs >= forgetAfterMs) {
        connection.forgetHead();
      }
    });
    this.#isSweeping = false;
  }

  /**
   * Closes every connection, in portions, after its requests in progress. Includes connections that are added later.
   */
  endWhenIdle(): void {
    this.#isEnding = true;
    void inPortions([...this.#places], ({ connection }) => connection.endWhenIdle());
  }

  /**
   * Aborts all connections. Resolves with the number of requests that were in progress, when all exchanges have ended.
   */
  async abortAll(): Promise<number> {
    let aborted = 0;
    await inPortions(this.#places, ({ connection }) => {
      aborted += connection.activeCount;
      connection.abort();
    });
    return aborted;
  }
}

/** A connection in the table and, while it is idle, in the list. */
class Place implements ConnectionPlace {
  readonly connection: ClientConnection;
  readonly #places: Set<Place>;
  readonly #idle: IdleList;
  isIdle = false;
  /** The start of its idle time. */
  sinceMs = 0;
  before: Place | null = null;
  after: Place | null = null;

  constructor(connection: ClientConnection, places: Set<Place>, idle: IdleList) {
    this.connection = connection;
    this.#places = places;
    this.#idle = idle;
  }

  setIdle(isIdle: boolean, nowMs?: number): void {
    if (this.isIdle) this.#idle.remove(this);
    if (isIdle && !this.connection.socket.destroyed) this.#idle.append(this, nowMs);
  }

  leave(): void {
    this.connection.place = null;
    this.#places.delete(this);
    if (this.isIdle) this.#idle.remove(this);
  }
}

class IdleList {
  readonly #nowMs: () => number;
  first: Place | null = null;
  #last: Place | null = null;
  count = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  append(place: Place, nowMs = this.#nowMs()): void {
    place.isIdle = true;
    place.sinceMs = nowMs;
    place.before = this.#last;
    if (this.#last === null) this.first = place;
    else this.#last.after = place;
    this.#last = place;
    this.count += 1;
  }

  remove(place: Place): void {
    const { before, after } = place;
    if (before === null) this.first = after;
    else before.after = after;
    if (after === null) this.#last = before;
    else after.before = before;
    place.before = null;
    place.after = null;
    place.isIdle = false;
    this.count -= 1;
  }
}
