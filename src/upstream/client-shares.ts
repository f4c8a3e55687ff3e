// How much of a resource that requests share each client holds, and what can be taken back from it.
import { clientShare, type OnShareExceeded, type SharedResource } from "../core/client-share.ts";

/** Something that is held for a client and can be taken back. */
export interface Reclaimable {
  /** The higher, the sooner it is taken back. 0: it must not be taken back. */
  slowness(): number;
  /** Called when it is taken back. Gives back what it holds before it returns. */
  onShareExceeded(resource: SharedResource): void;
}

/** What a client holds of the resource. */
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

  /** Returns what a client holds, and creates the entry if needed. `forget` removes it if the client holds nothing and none waits. */
  of(client: string): ClientHolding {
    const known = this.#byClient.get(client);
    if (known !== undefined) return known;
    const holding: ClientHolding = { client, held: 0, waiting: 0, reclaimable: null };
    this.#byClient.set(client, holding);
    return holding;
  }

  forget(holding: ClientHolding): void {
    if (holding.held === 0 && holding.waiting === 0) this.#byClient.delete(holding.client);
  }

  hold(client: string): ClientHolding {
    const holding = this.of(client);
    holding.held += 1;
    this.#free -= 1;
    return holding;
  }

  release(holding: ClientHolding): void {
    holding.held -= 1;
    this.#free += 1;
    this.forget(holding);
  }

  addReclaimable(holding: ClientHolding, reclaimable: Reclaimable): void {
    holding.reclaimable ??= new Set();
    holding.reclaimable.add(reclaimable);
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
    found.holding.reclaimable?.delete(found.reclaimable);
    onExceeded(resource, found.holding.client);
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
    for (const holding of greediestFirst) {
      const found = slowestOf(holding);
      if (found === null) continue;
      if (holding.held > equalShare) return found;
      slow += found.count;
      if (slowest === null || (holding.held === slowest.holding.held && found.slowness > slowest.slowness))
        slowest = found;
    }
    return 4 * slow >= this.#options.total ? slowest : null;
  }
}

/** The slowest thing of a client, of those that were looked at; `count` of them are slow. */
type Slow = Readonly<{ holding: ClientHolding; reclaimable: Reclaimable; slowness: number; count: number }>;

function slowestOf(holding: ClientHolding): Slow | null {
  const among = holding.reclaimable ?? new Set();
  let slowest: Slow | null = null;
  let count = 0;
  const lookedAt: Reclaimable[] = [];
  for (const reclaimable of among) {
    lookedAt.push(reclaimable);
    const slowness = reclaimable.slowness();
    if (slowness > 0) count += 1;
    if (slowness > (slowest?.slowness ?? 0)) slowest = { holding, reclaimable, slowness, count: 0 };
    if (lookedAt.length === maxLookedAt) break;
  }
  for (const each of lookedAt.length < among.size ? lookedAt : []) {
    among.delete(each);
    among.add(each);
  }
  return slowest && { ...slowest, count };
}
