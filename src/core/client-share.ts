// How much of a shared resource one client may hold. The bound shrinks with what is free (dynamic thresholds, as switches
// share their buffers: Choudhury and Hahne, 1998), because what is held cannot always be taken back. So a client alone
// gets a half, and n clients that take together get three quarters among them; the last quarter stays free for others.
// Connections get their places by it (`FairPlaces`).

export const sharedResources = [
  "connections", // to the upstream
  "queue", // places of requests that wait for such a connection
  "tunnels",
  "client_connections", // of clients to the gateway, with a request
] as const;

export type SharedResource = (typeof sharedResources)[number];

/** Called for each request or tunnel that is refused or ended because its client, or peer, has used up its share. */
export type OnShareExceeded = (resource: SharedResource, client: string) => void;

/**
 * Returns the bound on what a client may hold when `free` of `total` are free: a client that holds less gets one more. The
 * last quarter is for clients that hold nothing. Without it, clients that come one after the other would each take a half
 * of what is free, and a pool of 256 would have nothing left for the tenth.
 */
export function clientShare(free: number, total: number): number {
  return free > Math.floor(total / 4) ? free : Math.min(free, 1);
}

/** Bounds memory: a total for all clients, and for each client its share. */
export class ClientBytes {
  readonly #byClient = new Map<string, number>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes of memory that are kept now. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Counts bytes that a client now keeps; a negative number counts bytes that it keeps no longer. Returns false if a bound
   * is exceeded. The bytes are counted in that case too, and the caller subtracts them when it drops them.
   */
  add(client: string, bytes: number): boolean {
    const keptBytes = this.#byClient.get(client) ?? 0;
    const hasShareLeft = keptBytes < clientShare(this.#maxBytes - this.#bytes, this.#maxBytes);
    if (keptBytes + bytes > 0) this.#byClient.set(client, keptBytes + bytes);
    else this.#byClient.delete(client);
    this.#bytes += bytes;
    return bytes <= 0 || (hasShareLeft && this.#bytes <= this.#maxBytes);
  }
}

/** One connection in its place; `order` grows with each change between idle and busy. */
interface SharePlace<Connection> {
  readonly peer: PeerPlaces<Connection>;
  isBusy: boolean;
  order: number;
}

/** The places of one peer. Both sets are in the order of `SharePlace.order`. */
interface PeerPlaces<Connection> {
  readonly key: string;
  readonly idle: Set<Connection>;
  readonly busy: Set<Connection>;
}

/**
 * A bounded number of places that peers share. A new connection always gets a place. If its peer has used up its share,
 * which shrinks with what is free, the peer loses one of its own places. If the peer has no place and none is free, the
 * peer with the most places loses one. So a peer with many connections cannot evict a peer with few.
 */
export class FairPlaces<Connection extends object> {
  readonly #max: number;
  readonly #places = new Map<Connection, SharePlace<Connection>>();
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
   * Gives a place to an idle connection. Returns the connection that lost its place, or null: that of its own peer, or of
   * the peer with the most places, that has been idle longest or, if none is idle, busy longest.
   */
  take(connection: Connection, peerKey: string): Connection | null {
    const evicted = this.#hasShareLeft(peerKey) ? null : this.#evictFor(peerKey);
    this.#add(connection, peerKey);
    return evicted;
  }

  /** As `take`, but returns false, and gives no place, if a connection of the same peer would have to be evicted. */
  takeFromOthers(connection: Connection, peerKey: string, onEvicted: (evicted: Connection) => void): boolean {
    if (!this.#hasShareLeft(peerKey)) {
      if (this.#peers.has(peerKey)) return false;
      const evicted = this.evict();
      if (evicted !== null) onEvicted(evicted);
    }
    this.#add(connection, peerKey);
    return true;
  }

  /** Frees the place that `take` frees for a peer without a place while none is free. Returns its connection, or null. */
  evict(): Connection | null {
    return this.#evictFrom(this.#peers.values());
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

  #evictFor(peerKey: string): Connection | null {
    const peer = this.#peers.get(peerKey);
    return peer === undefined ? this.evict() : this.#evictFrom([peer]);
  }

  #hasShareLeft(peerKey: string): boolean {
    const peer = this.#peers.get(peerKey);
    return (peer === undefined ? 0 : sizeOf(peer)) < clientShare(this.#max - this.count, this.#max);
  }

  #add(connection: Connection, peerKey: string): void {
    let peer = this.#peers.get(peerKey);
    if (peer === undefined) {
      peer = { key: peerKey, idle: new Set(), busy: new Set() };
      this.#peers.set(peerKey, peer);
    }
    peer.idle.add(connection);
    this.#places.set(connection, { peer, isBusy: false, order: this.#nextOrder() });
  }

  /** Evicts a connection of the peer with the most. Looks at each peer once; there are at most `max` peers. */
  #evictFrom(peers: Iterable<PeerPlaces<Connection>>): Connection | null {
    let found: { connection: Connection; held: number; place: SharePlace<Connection> } | null = null;
    for (const peer of peers) {
      const [connection = first(peer.busy)] = peer.idle;
      const place = connection && this.#places.get(connection);
      if (connection === undefined || place === undefined) continue;
      const held = sizeOf(peer);
      if (found === null || held > found.held || (held === found.held && precedes(place, found.place))) {
        found = { connection, held, place };
      }
    }
    if (found !== null) this.leave(found.connection);
    return found?.connection ?? null;
  }

  #nextOrder(): number {
    this.#order += 1;
    return this.#order;
  }
}

/** Idle connections go before busy ones, older ones before newer ones. */
function precedes<Connection>(a: SharePlace<Connection>, b: SharePlace<Connection>): boolean {
  return a.isBusy === b.isBusy ? a.order < b.order : b.isBusy;
}

function setOf<Connection>({ peer, isBusy }: SharePlace<Connection>): Set<Connection> {
  return isBusy ? peer.busy : peer.idle;
}

function sizeOf<Connection>({ idle, busy }: PeerPlaces<Connection>): number {
  return idle.size + busy.size;
}

function first<T>(set: ReadonlySet<T>): T | undefined {
  const [value] = set;
  return value;
}
