// Counts how much each client holds of a shared resource: connections to the upstream, or tunnels. A client gets one more
// while it holds less than its share, which shrinks with what is free. If nothing is free for a client that holds nothing,
// something idle is taken back from a client that holds more than an equal share.
import { clientShare, type OnShareExceeded, type SharedResource } from "../core/client-share.ts";

/** Something that is held for a client and can be taken back. */
export interface Reclaimable {
  /** How long it has waited for its client, or was hardly used. 0: it must not be taken back. */
  idleMs(): number;
  /** Called when it is taken back. Gives back what it holds before it returns. */
  onShareExceeded(resource: SharedResource): void;
}

export interface ClientShare {
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

export class ClientShares {
  readonly #options: ClientSharesOptions;
  /** The clients that hold something or wait. */
  readonly #byClient = new Map<string, ClientShare>();
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

  /**
   * An equal part for each client that holds something or waits, if one more part of this size stays free. At least 1.
   */
  get equalShare(): number {
    return Math.max(1, Math.floor(this.#options.total / (this.size + 1)));
  }

  /** Undefined for a client that holds nothing and does not wait. */
  find(client: string): ClientShare | undefined {
    return this.#byClient.get(client);
  }

  /**
   * Returns the share of a client, and creates it if needed. `forget` removes it if it holds nothing and none waits.
   */
  of(client: string): ClientShare {
    const known = this.#byClient.get(client);
    if (known !== undefined) return known;
    const share: ClientShare = { client, held: 0, waiting: 0, reclaimable: null };
    this.#byClient.set(client, share);
    return share;
  }

  forget(share: ClientShare): void {
    if (share.held === 0 && share.waiting === 0) this.#byClient.delete(share.client);
  }

  hold(client: string): ClientShare {
    const share = this.of(client);
    share.held += 1;
    this.#free -= 1;
    return share;
  }

  release(share: ClientShare): void {
    share.held -= 1;
    this.#free += 1;
    this.forget(share);
  }

  addReclaimable(share: ClientShare, reclaimable: Reclaimable): void {
    share.reclaimable ??= new Set();
    share.reclaimable.add(reclaimable);
  }

  /** Returns whether a client that holds `held` may hold one more. */
  hasShareLeft(held: number): boolean {
    return held < clientShare(this.#free, this.#options.total);
  }

  /**
   * Takes back the thing that has been idle longest, and for at least `minIdleMs`, from the client that holds the most.
   * Clients that hold no more than an equal share lose nothing. Returns false if there is nothing to take back. If a client
   * holds more than `maxLookedAt`, a call looks at a part of it, and the next call at another part.
   */
  reclaim(minIdleMs: number): boolean {
    const { resource, onExceeded } = this.#options;
    const { equalShare } = this;
    const greediestFirst = [...this.#byClient.values()]
      .filter(({ held }) => held > equalShare)
      .sort((a, b) => b.held - a.held);
    for (const { client, reclaimable } of greediestFirst) {
      const found = reclaimable === null ? null : longestIdle(reclaimable, minIdleMs);
      if (found === null) continue;
      reclaimable?.delete(found);
      onExceeded(resource, client);
      found.onShareExceeded(resource);
      return true;
    }
    return false;
  }
}

function longestIdle(among: Set<Reclaimable>, minIdleMs: number): Reclaimable | null {
  let longest: Reclaimable | null = null;
  let longestMs = minIdleMs;
  const lookedAt: Reclaimable[] = [];
  for (const each of among) {
    lookedAt.push(each);
    const idleMs = each.idleMs();
    if (longest === null ? idleMs >= longestMs : idleMs > longestMs) {
      longest = each;
      longestMs = idleMs;
    }
    if (lookedAt.length === maxLookedAt) break;
  }
  if (lookedAt.length === among.size) return longest;
  for (const each of lookedAt) {
    among.delete(each);
    among.add(each);
  }
  return longest;
}
