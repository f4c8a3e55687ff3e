// Places that requests share, such as connections to the upstream: who holds how many, and who waits for one.
import { clientShare, type OnShareExceeded, type SharedResource } from "../core/client-share.ts";

export interface SharedPlacesOptions<W> {
  /** The number of places. As many requests may wait, but at least `minWaiting`. */
  readonly total: number;
  /** The longest wait. */
  readonly timeoutMs: number;
  /**
   * Called when no place became free in time, or too many wait. If the reason is the client's share, `onShareExceeded` is
   * called instead, here and on the waiter.
   */
  readonly onRefused: (waiter: W) => void;
  readonly onShareExceeded: OnShareExceeded;
}

/** A browser sends the requests of a page on one HTTP/2 connection at once: 100, as many as the gateway allows it. */
const minWaiting = 100;

/** How often slow transfers are looked for while requests wait. */
const reclaimEveryMs = 100;

/** A request is urgent after this part of the longest wait: a burst of requests must not cost a client its only transfer. */
const urgentPart = 1 / 4;

export class SharedPlaces<W extends Waiter & Reclaimable> {
  readonly #options: SharedPlacesOptions<W>;
  readonly #shares: ClientShares;
  readonly #queue: FairQueue<W>;
  #timer: NodeJS.Timeout | null = null;

  constructor(options: SharedPlacesOptions<W>) {
    this.#options = options;
    const { total, timeoutMs, onShareExceeded: onExceeded } = options;
    this.#shares = new ClientShares({ resource: "connections", total, onExceeded });
    this.#queue = new FairQueue(
      { maxWaiting: Math.max(total, minWaiting), timeoutMs, onTimeout: (waiter) => this.#refuse(waiter) },
      this.#shares,
    );
  }

  /** Requests that wait. */
  get waiting(): number {
    return this.#queue.size;
  }

  /** Returns whether a place is free for the client. If not, `wait`. */
  isFreeFor(client: string): boolean {
    return this.#shares.hasShareLeft(this.#shares.find(client)?.held ?? 0);
  }

  /** Counts a place that the client now holds. */
  hold(client: string): ClientHolding {
    return this.#queue.hold(client);
  }

  /** From now on, the place is taken back if its transfer is slow and another client needs it. */
  mayReclaim(share: ClientHolding, waiter: W): void {
    this.#shares.addReclaimable(share, waiter);
  }

  /** Counts the place as free. The owner then calls `next`. */
  release(share: ClientHolding, waiter: W): void {
    share.reclaimable?.delete(waiter);
    this.#queue.release(share);
  }

  /** Adds the waiter to the queue, from which `next` returns it later, or refuses it. */
  wait(waiter: W): void {
    const refused = this.#queue.add(waiter);
    if (refused === waiter && !this.#queue.isAtShare(waiter.client)) this.#refuse(waiter);
    else if (refused !== null) this.#refuseForShare(refused, "queue");
    // While the timer is set, the last search was less than `reclaimEveryMs` ago.
    if (refused !== waiter && this.#timer === null) this.#reclaim();
  }

  /** Returns the waiter that gets a free place, if one is free for it. The owner counts the place with `hold`. */
  next(): W | undefined {
    return this.#queue.take();
  }

  /** Removes the waiter from the queue. Returns false if it does not wait. */
  leave(waiter: W): boolean {
    return this.#queue.delete(waiter);
  }

  /** Empties the queue, and returns those that waited. */
  close(): W[] {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    return this.#queue.deleteAll();
  }

  /** If places are free, only the client's share can be the reason. */
  #refuse(waiter: W): void {
    if (this.#shares.hasFree) this.#refuseForShare(waiter, "connections");
    else this.#options.onRefused(waiter);
  }

  #refuseForShare(waiter: W, resource: SharedResource): void {
    this.#options.onShareExceeded(resource, waiter.client);
    waiter.onShareExceeded(resource);
  }

  /**
   * If the next client that waits holds no place, takes back that of a slow transfer for it. Takes back one place only,
   * because the search takes a millisecond with thousands of clients: the next search is in another turn of the event loop.
   */
  #reclaim(): void {
    const { size, first } = this.#queue;
    const isTaken = first?.line.share.held === 0 && this.#shares.reclaim(first.isUrgent);
    // A place that is taken back goes to the next waiter before `reclaim` returns.
    const isGiven = isTaken && this.#queue.size < size;
    if (isGiven || this.#queue.size > 0) this.#timer ??= setTimeout(this.#onTimer, isGiven ? 0 : reclaimEveryMs);
  }

  readonly #onTimer = (): void => {
    this.#timer = null;
    this.#reclaim();
  };
}

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
  readonly share: ClientHolding;
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
    if (line === undefined || waiter === undefined || !this.#shares.hasShareLeft(line.share.held)) return undefined;
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
    line.share.waiting -= 1;
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
    const share = this.#shares.hold(client);
    if (share.waiting > 0) this.#heldChanged(share);
    return share;
  }

  release(share: ClientHolding): void {
    this.#shares.release(share);
    if (share.waiting > 0) this.#heldChanged(share);
  }

  /** Returns the newest request of the longest line, or this one if its line would then be longer than that line. */
  #refusedFor(waiter: W): W {
    const longest = this.#longest.first;
    const waiting = this.#shares.find(waiter.client)?.waiting ?? 0;
    const isFair = longest === undefined || longest.share.waiting < waiting + 2;
    return isFair ? waiter : (longest.last?.waiter ?? waiter);
  }

  #append(waiter: W): void {
    const share = this.#shares.of(waiter.client);
    const line = this.#lines.get(share) ?? this.#newLine(share);
    const timer = setTimeout(() => this.#onUrgent(last), this.#options.timeoutMs * urgentPart);
    const last: WaitingRequest<W> = { waiter, line, timer, isUrgent: false, before: line.last, behind: null };
    if (line.last === null) line.first = last;
    else line.last.behind = last;
    line.last = last;
    this.#waiting.set(waiter, last);
    share.waiting += 1;
    this.#lineChanged(line);
  }

  #newLine(share: ClientHolding): Line<W> {
    this.#turn += 1;
    const line: Line<W> = { share, first: null, last: null, turn: this.#turn };
    this.#lines.set(share, line);
    return line;
  }

  #lineChanged(line: Line<W>): void {
    const share = line.share;
    if (share.waiting > 0) {
      this.#longest.place(line);
      this.#next.place(line);
      return;
    }
    this.#longest.delete(line);
    this.#next.delete(line);
    this.#lines.delete(share);
    this.#shares.forget(share);
  }

  #heldChanged(share: ClientHolding): void {
    const line = this.#lines.get(share);
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
  return a.share.held === b.share.held ? a.turn < b.turn : a.share.held < b.share.held;
}

function isLonger(a: AnyLine, b: AnyLine): boolean {
  return a.share.waiting > b.share.waiting;
}

interface AnyLine {
  readonly share: ClientHolding;
  readonly turn: number;
}

/** A binary heap. Adding, moving and deleting an item each take O(log n). */
export class Heap<T> {
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

/** Something that is held for a client and can be taken back. */
export interface Reclaimable {
  /** The higher, the sooner it is taken back. 0: it must not be taken back. */
  slowness(): number;
  /** Called when it is taken back. Gives back what it holds before it returns. */
  onShareExceeded(resource: SharedResource): void;
}

export interface ClientHolding {
  readonly client: string;
  held: number;
  /** Requests in the queue. */
  waiting: number;
  /** What can be taken back, in the order in which it was added or last looked at. Null: nothing was ever added. */
  reclaimable: Set<Reclaimable> | null;
}

interface ClientSharesOptions {
  readonly resource: SharedResource;
  /** The size of the resource. */
  readonly total: number;
  readonly onExceeded: OnShareExceeded;
}

/** How many things of one client a search looks at. A search must be short, however many a client holds. */
const maxLookedAt = 64;

/**
 * Counts how much each client holds of a shared resource: connections to the upstream, or tunnels. A client gets one
 * more while it holds less than its share, which shrinks with what is free. If nothing is free for a client that holds
 * nothing, something slow is taken back.
 */
export class ClientShares {
  readonly #options: ClientSharesOptions;
  /** The clients that hold something or wait. */
  readonly #byClient = new Map<string, ClientHolding>();
  #free: number;

  constructor(options: ClientSharesOptions) {
    this.#options = options;
    this.#free = options.total;
  }

  /** The clients that hold something or wait. */
  get size(): number {
    return this.#byClient.size;
  }

  get hasFree(): boolean {
    return this.#free > 0;
  }

  /** An equal part for each client that holds something or waits, if one more part of this size stays free. At least 1. */
  get equalShare(): number {
    return Math.max(1, Math.floor(this.#options.total / (this.size + 1)));
  }

  /** Undefined for a client that holds nothing and does not wait. */
  find(client: string): ClientHolding | undefined {
    return this.#byClient.get(client);
  }

  /** Returns the share of a client, and creates it if needed. `forget` removes it if it holds nothing and none waits. */
  of(client: string): ClientHolding {
    const known = this.#byClient.get(client);
    if (known !== undefined) return known;
    const share: ClientHolding = { client, held: 0, waiting: 0, reclaimable: null };
    this.#byClient.set(client, share);
    return share;
  }

  forget(share: ClientHolding): void {
    if (share.held === 0 && share.waiting === 0) this.#byClient.delete(share.client);
  }

  hold(client: string): ClientHolding {
    const share = this.of(client);
    share.held += 1;
    this.#free -= 1;
    return share;
  }

  release(share: ClientHolding): void {
    share.held -= 1;
    this.#free += 1;
    this.forget(share);
  }

  addReclaimable(share: ClientHolding, reclaimable: Reclaimable): void {
    share.reclaimable ??= new Set();
    share.reclaimable.add(reclaimable);
  }

  /** Returns whether a client that holds `held` may hold one more. */
  hasShareLeft(held: number): boolean {
    return held < clientShare(this.#free, this.#options.total);
  }

  /**
   * Takes back the slowest thing of the client that holds the most. Clients that hold no more than an equal share lose
   * something only if `isUrgent`, nobody who holds more has anything slow, and at least a quarter of all is slow; then the
   * slowest of those who hold equally many goes. Returns false if there is nothing to take back. If a client holds more
   * than `maxLookedAt`, a call looks at a part of it, and the next call at another part.
   */
  reclaim(isUrgent: boolean): boolean {
    const { resource, onExceeded } = this.#options;
    const found = this.#slowest(isUrgent);
    if (found === null) return false;
    found.share.reclaimable?.delete(found.reclaimable);
    onExceeded(resource, found.share.client);
    found.reclaimable.onShareExceeded(resource);
    return true;
  }

  #slowest(isUrgent: boolean): Slow | null {
    const { equalShare } = this;
    const greediestFirst = [...this.#byClient.values()]
      .filter(({ held }) => held > equalShare || isUrgent)
      .sort((a, b) => b.held - a.held);
    let slow = 0;
    let slowest: Slow | null = null;
    for (const share of greediestFirst) {
      const found = slowestOf(share);
      if (found === null) continue;
      if (share.held > equalShare) return found;
      slow += found.count;
      if (slowest === null || (share.held === slowest.share.held && found.slowness > slowest.slowness)) slowest = found;
    }
    return 4 * slow >= this.#options.total ? slowest : null;
  }
}

/** The slowest thing of a client, of those that were looked at; `count` of them are slow. */
type Slow = Readonly<{ share: ClientHolding; reclaimable: Reclaimable; slowness: number; count: number }>;

function slowestOf(share: ClientHolding): Slow | null {
  const among = share.reclaimable ?? new Set();
  let slowest: Slow | null = null;
  let count = 0;
  const lookedAt: Reclaimable[] = [];
  for (const reclaimable of among) {
    lookedAt.push(reclaimable);
    const slowness = reclaimable.slowness();
    if (slowness > 0) count += 1;
    if (slowness > (slowest?.slowness ?? 0)) slowest = { share, reclaimable, slowness, count: 0 };
    if (lookedAt.length === maxLookedAt) break;
  }
  for (const each of lookedAt.length < among.size ? lookedAt : []) {
    among.delete(each);
    among.add(each);
  }
  return slowest && { ...slowest, count };
}
