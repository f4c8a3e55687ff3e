// A bounded number of places that peers share. A new connection always gets a place: when all are taken, a connection
// of the peer with the most places loses its own. So a peer with many connections cannot evict a peer with few.

/** One connection in its place; `order` grows with each change between idle and busy. */
interface Place<Connection> {
  readonly peer: PeerPlaces<Connection>;
  isBusy: boolean;
  order: number;
}

/** The places of one peer. Both sets are in the order of `Place.order`. */
interface PeerPlaces<Connection> {
  readonly key: string;
  readonly idle: Set<Connection>;
  readonly busy: Set<Connection>;
}

export class FairPlaces<Connection extends object> {
  readonly #max: number;
  readonly #places = new Map<Connection, Place<Connection>>();
  readonly #peers = new Map<string, PeerPlaces<Connection>>();
  #order = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get count(): number {
    return this.#places.size;
  }

  has(connection: Connection): boolean {
    return this.#places.has(connection);
  }

  connections(): IterableIterator<Connection> {
    return this.#places.keys();
  }

  /**
   * Gives a place to an idle connection. Returns the connection that lost its place, or null. It belongs to the peer
   * with the most places, and is the one that has been idle longest or, if none is idle, busy longest.
   */
  take(connection: Connection, peerKey: string): Connection | null {
    const evicted = this.count < this.#max ? null : this.evict(peerKey);
    let peer = this.#peers.get(peerKey);
    if (peer === undefined) {
      peer = { key: peerKey, idle: new Set(), busy: new Set() };
      this.#peers.set(peerKey, peer);
    }
    peer.idle.add(connection);
    this.#places.set(connection, { peer, isBusy: false, order: this.#nextOrder() });
    return evicted;
  }

  /**
   * Frees the place that a new connection of `newPeer` would get from another. Returns the evicted connection, or null.
   */
  evict(newPeer: string | null = null): Connection | null {
    const evicted = this.#next(newPeer);
    if (evicted !== null) this.leave(evicted);
    return evicted;
  }

  /** As `take`, but returns false, and gives no place, if a connection of the same peer would have to be evicted. */
  takeFromOthers(connection: Connection, peerKey: string, onEvicted: (evicted: Connection) => void): boolean {
    if (this.count >= this.#max) {
      const evicted = this.#next(peerKey);
      if (evicted === null || this.#places.get(evicted)?.peer.key === peerKey) return false;
      this.leave(evicted);
      onEvicted(evicted);
    }
    this.take(connection, peerKey);
    return true;
  }

  /** Notes whether something is in progress on the connection. Does nothing if it has no place. */
  setBusy(connection: Connection, isBusy: boolean): void {
    const place = this.#places.get(connection);
    if (place === undefined || place.isBusy === isBusy) return;
    setOf(place).delete(connection);
    place.isBusy = isBusy;
    place.order = this.#nextOrder();
    setOf(place).add(connection);
  }

  /** Frees the place of the connection, if it has one. Returns whether it had one. */
  leave(connection: Connection): boolean {
    const place = this.#places.get(connection);
    if (place === undefined) return false;
    this.#places.delete(connection);
    setOf(place).delete(connection);
    const { peer } = place;
    if (sizeOf(peer) === 0) this.#peers.delete(peer.key);
    return true;
  }

  /** Returns the connection to evict for one of `newPeer`. Looks at each peer once; there are at most `max` peers. */
  #next(newPeer: string | null): Connection | null {
    let found: { connection: Connection; share: number; place: Place<Connection> } | null = null;
    for (const peer of this.#peers.values()) {
      const [connection = first(peer.busy)] = peer.idle;
      const place = connection && this.#places.get(connection);
      if (connection === undefined || place === undefined) continue;
      const share = sizeOf(peer) + (peer.key === newPeer ? 1 : 0);
      if (found === null || share > found.share || (share === found.share && precedes(place, found.place))) {
        found = { connection, share, place };
      }
    }
    return found?.connection ?? null;
  }

  #nextOrder(): number {
    this.#order += 1;
    return this.#order;
  }
}

/** Idle connections go before busy ones, older ones before newer ones. */
function precedes<Connection>(a: Place<Connection>, b: Place<Connection>): boolean {
  return a.isBusy === b.isBusy ? a.order < b.order : b.isBusy;
}

function setOf<Connection>({ peer, isBusy }: Place<Connection>): Set<Connection> {
  return isBusy ? peer.busy : peer.idle;
}

function sizeOf<Connection>({ idle, busy }: PeerPlaces<Connection>): number {
  return idle.size + busy.size;
}

function first<T>(set: ReadonlySet<T>): T | undefined {
  const [value] = set;
  return value;
}
