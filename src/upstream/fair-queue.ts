// The queue of requests that wait for a place: the next free one goes to the client that holds the fewest. Each wait is
// bounded.
import type { ClientHolding, ClientShares } from "./client-shares.ts";

/** A request is urgent after this part of the longest wait: a burst of requests must not cost a client its only transfer. */
const urgentPart = 1 / 4;

export interface Waiter {
  /** The key of the client that is charged. */
  readonly client: string;
}

interface FairQueueOptions<W> {
  readonly maxWaiting: number;
  /** The longest wait. */
  readonly timeoutMs: number;
  /** Called for each that has waited for `timeoutMs` and was removed from the queue. */
  readonly onTimeout: (waiter: W) => void;
}

/** Requests that arrive together time out together. At most this many are answered in one turn of the event loop. */
const maxTimedOutAtOnce = 16;

/** A request in the line of its client. */
interface WaitingRequest<W> {
  readonly waiter: W;
  readonly line: Line<W>;
  timer: NodeJS.Timeout;
  isUrgent: boolean;
  before: WaitingRequest<W> | null;
  behind: WaitingRequest<W> | null;
}

/** The waiting requests of one client. */
interface Line<W> {
  readonly holding: ClientHolding;
  first: WaitingRequest<W> | null;
  last: WaitingRequest<W> | null;
  /** Among clients that hold equally many, the one with the lowest value is next. */
  turn: number;
}

/**
 * The queue for a shared resource. The next free place goes to the client that holds the fewest, if it has a share
 * left; clients that hold equally many take turns. So a client with many requests delays only itself. Requests of one
 * client are served in order of arrival. When the queue is full, the newest request of the client with the most waiting
 * requests is removed for a request of a client with fewer. Each step takes O(log n) for n waiting clients.
 */
export class FairQueue<W extends Waiter> {
  readonly #options: FairQueueOptions<W>;
  readonly #shares: ClientShares;
  readonly #waiting = new Map<W, WaitingRequest<W>>();
  readonly #lines = new Map<ClientHolding, Line<W>>();
  readonly #next = new Heap<Line<W>>(isServedBefore);
  readonly #longest = new Heap<Line<W>>(isLonger);
  /** Have been removed from the queue, but `onTimeout` has not been called yet. */
  readonly #timedOut = new Set<W>();
  #turn = 0;

  constructor(options: FairQueueOptions<W>, shares: ClientShares) {
    this.#options = options;
    this.#shares = shares;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** Adds a request. Returns the one that is refused if the queue is full: this one, or one that waited. Null: none. */
  add(waiter: W): W | null {
    const refused = this.size < this.#options.maxWaiting ? null : this.#refusedFor(waiter);
    if (refused === waiter) return waiter;
    if (refused !== null) this.delete(refused);
    this.#append(waiter);
    return refused;
  }

  /** Returns whether the client has its share of the queue while others wait too. */
  isAtShare(client: string): boolean {
    return this.#lines.size > 1 && (this.#shares.find(client)?.waiting ?? 0) >= this.#shares.equalShare;
  }

  /** The request that is served next; null if none waits. */
  get first(): WaitingRequest<W> | null {
    return this.#next.first?.first ?? null;
  }

  /**
   * Removes and returns the next request. Returns undefined if its client has no share left, because then the other
   * clients, which hold no less, have none left either. The caller counts the place that the request gets with `hold`.
   */
  take(): W | undefined {
    const line = this.#next.first;
    const waiter = line?.first?.waiter;
    if (line === undefined || waiter === undefined || !this.#shares.hasShareLeft(line.holding.held)) return undefined;
    this.#turn += 1;
    line.turn = this.#turn;
    this.delete(waiter);
    return waiter;
  }

  /** Removes a request. Returns false if it does not wait. */
  delete(waiter: W): boolean {
    const found = this.#waiting.get(waiter);
    if (found === undefined) return this.#timedOut.delete(waiter);
    clearTimeout(found.timer);
    this.#waiting.delete(waiter);
    const { line, before, behind } = found;
    if (before === null) line.first = behind;
    else before.behind = behind;
    if (behind === null) line.last = before;
    else behind.before = before;
    line.holding.waiting -= 1;
    this.#lineChanged(line);
    return true;
  }

  /** Removes and returns all requests. */
  deleteAll(): W[] {
    const waiters = [...this.#timedOut, ...this.#waiting.keys()];
    for (const waiter of waiters) this.delete(waiter);
    return waiters;
  }

  hold(client: string): ClientHolding {
    const holding = this.#shares.hold(client);
    if (holding.waiting > 0) this.#heldChanged(holding);
    return holding;
  }

  release(holding: ClientHolding): void {
    this.#shares.release(holding);
    if (holding.waiting > 0) this.#heldChanged(holding);
  }

  /** Returns the newest request of the longest line, or this one if its line would then be longer than that line. */
  #refusedFor(waiter: W): W {
    const longest = this.#longest.first;
    const waiting = this.#shares.find(waiter.client)?.waiting ?? 0;
    const isFair = longest === undefined || longest.holding.waiting < waiting + 2;
    return isFair ? waiter : (longest.last?.waiter ?? waiter);
  }

  #append(waiter: W): void {
    const holding = this.#shares.of(waiter.client);
    const line = this.#lines.get(holding) ?? this.#newLine(holding);
    const timer = setTimeout(() => this.#onUrgent(last), this.#options.timeoutMs * urgentPart);
    const last: WaitingRequest<W> = { waiter, line, timer, isUrgent: false, before: line.last, behind: null };
    if (line.last === null) line.first = last;
    else line.last.behind = last;
    line.last = last;
    this.#waiting.set(waiter, last);
    holding.waiting += 1;
    this.#lineChanged(line);
  }

  #newLine(holding: ClientHolding): Line<W> {
    this.#turn += 1;
    const line: Line<W> = { holding, first: null, last: null, turn: this.#turn };
    this.#lines.set(holding, line);
    return line;
  }

  #lineChanged(line: Line<W>): void {
    const { holding } = line;
    if (holding.waiting > 0) {
      this.#longest.place(line);
      this.#next.place(line);
      return;
    }
    this.#longest.delete(line);
    this.#next.delete(line);
    this.#lines.delete(holding);
    this.#shares.forget(holding);
  }

  #heldChanged(holding: ClientHolding): void {
    const line = this.#lines.get(holding);
    if (line !== undefined) this.#next.place(line);
  }

  #onUrgent(waiting: WaitingRequest<W>): void {
    waiting.isUrgent = true;
    waiting.timer = setTimeout(this.#onTimeout, this.#options.timeoutMs * (1 - urgentPart), waiting.waiter);
  }

  readonly #onTimeout = (waiter: W): void => {
    this.delete(waiter);
    if (this.#timedOut.size === 0) setImmediate(this.#tellTimedOut);
    this.#timedOut.add(waiter);
  };

  readonly #tellTimedOut = (): void => {
    let told = 0;
    for (const waiter of this.#timedOut) {
      this.#timedOut.delete(waiter);
      this.#options.onTimeout(waiter);
      told += 1;
      if (told === maxTimedOutAtOnce) break;
    }
    if (this.#timedOut.size > 0) setImmediate(this.#tellTimedOut);
  };
}

function isServedBefore(a: AnyLine, b: AnyLine): boolean {
  return a.holding.held === b.holding.held ? a.turn < b.turn : a.holding.held < b.holding.held;
}

function isLonger(a: AnyLine, b: AnyLine): boolean {
  return a.holding.waiting > b.holding.waiting;
}

interface AnyLine {
  readonly holding: ClientHolding;
  readonly turn: number;
}

/** A binary heap. Adding, moving and deleting an item each take O(log n). */
class Heap<T> {
  readonly #isBefore: (a: T, b: T) => boolean;
  readonly #items: T[] = [];
  readonly #indexes = new Map<T, number>();

  constructor(isBefore: (a: T, b: T) => boolean) {
    this.#isBefore = isBefore;
  }

  get first(): T | undefined {
    return this.#items[0];
  }

  /** Adds an item, or moves one whose order has changed. */
  place(item: T): void {
    const index = this.#indexes.get(item) ?? this.#items.length;
    this.#sink(item, this.#rise(item, index));
  }

  delete(item: T): void {
    const index = this.#indexes.get(item);
    if (index === undefined) return;
    this.#indexes.delete(item);
    const last = this.#items.pop() as T;
    if (last !== item) this.#sink(last, this.#rise(last, index));
  }

  /** Moves parents down from `index` on, as long as the item comes before them. Returns the place that becomes free. */
  #rise(item: T, index: number): number {
    let at = index;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = this.#items[parent] as T;
      if (!this.#isBefore(item, above)) break;
      this.#put(above, at);
      at = parent;
    }
    return at;
  }

  #sink(item: T, index: number): void {
    let at = index;
    for (;;) {
      const left = 2 * at + 1;
      const right = left + 1;
      if (left >= this.#items.length) break;
      const isRight = right < this.#items.length && this.#isBefore(this.#items[right] as T, this.#items[left] as T);
      const child = isRight ? right : left;
      const below = this.#items[child] as T;
      if (!this.#isBefore(below, item)) break;
      this.#put(below, at);
      at = child;
    }
    this.#put(item, at);
  }

  #put(item: T, at: number): void {
    this.#items[at] = item;
    this.#indexes.set(item, at);
  }
}
