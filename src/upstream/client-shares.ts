// What each client holds of something that all clients share: connections to the upstream, or tunnels. One that holds more
// than its share loses what is idle because of it to another client. While nobody else asks, a client may hold everything.
import type { OnShareExceeded, SharedResource } from "../core/client-share.ts";

/** Something that is held for a client and can be taken back. */
export interface Reclaimable {
  /** How long it has waited for its client, or was used little; 0 for what must not be taken back. */
  idleMs(): number;
  /** Gives back what it holds before it returns. */
  onShareExceeded(resource: SharedResource): void;
}

export interface ClientShare {
  readonly client: string;
  held: number;
  /** Requests in the queue. */
  waiting: number;
  /** What can be taken back, the one that was added or looked at longest ago first. Null: nothing was ever added. */
  reclaimable: Set<Reclaimable> | null;
}

export interface ClientSharesOptions {
  readonly resource: SharedResource;
  /** What all clients share. */
  readonly total: number;
  readonly percent: number;
  readonly onExceeded: OnShareExceeded;
}

/** Looked at in one search, of each client over its share: a search must stay short however much a client holds. */
const maxLookedAt = 64;

export class ClientShares {
  /** The share of one client, at least 1. */
  readonly max: number;
  readonly #options: ClientSharesOptions;
  /** The clients that hold something or wait. */
  readonly #byClient = new Map<string, ClientShare>();
  /** The clients that hold more than their share: fewer than 100 / percent. */
  readonly #over = new Set<ClientShare>();

  constructor(options: ClientSharesOptions) {
    this.#options = options;
    this.max = Math.max(1, Math.floor((options.total * options.percent) / 100));
  }

  /** The clients that hold something or wait. */
  get size(): number {
    return this.#byClient.size;
  }

  /** Undefined for a client that holds nothing and does not wait. */
  find(client: string): ClientShare | undefined {
    return this.#byClient.get(client);
  }

  /** Is kept once something is held or waits; until then `forget` removes it. */
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
    if (share.held === this.max + 1) this.#over.add(share);
    return share;
  }

  release(share: ClientShare): void {
    if (share.held === this.max + 1) this.#over.delete(share);
    share.held -= 1;
    this.forget(share);
  }

  addReclaimable(share: ClientShare, reclaimable: Reclaimable): void {
    share.reclaimable ??= new Set();
    share.reclaimable.add(reclaimable);
  }

  /** Whether the client may hold one more without exceeding its share. */
  hasShareLeft(client: string): boolean {
    return (this.find(client)?.held ?? 0) < this.max;
  }

  /**
   * Takes back what has been idle longest and for at least `minIdleMs`, of the client that holds most. Returns false if
   * there is nothing. Of a client that holds much, a part is looked at, and the next call looks at another part.
   */
  reclaim(minIdleMs: number): boolean {
    const { resource, onExceeded } = this.#options;
    const greediestFirst = [...this.#over].sort((a, b) => b.held - a.held);
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
