// What lies between gateways and store: connections that keep their order, delays, and breaks. A connection that breaks
// is noticed by the gateway, a partition is not: what is sent during one arrives after its end, if it arrives.
import type { Chance } from "./chance.ts";
import type { SimulatedShard } from "./simulated-store.ts";
import type { VirtualTime } from "./virtual-time.ts";

export interface Delays {
  readonly leastMs: number;
  readonly mostMs: number;
  /** How many messages are late, and by how much at most. */
  readonly lateShare: number;
  readonly lateMs: number;
}

export interface Connection {
  readonly gateway: number;
  readonly shard: SimulatedShard;
  /** The run of the server: another one knows nothing of the connection. */
  readonly epoch: string;
  isOpen: boolean;
  toStoreMs: number;
  toGatewayMs: number;
  /** Called once when the gateway notices that the connection is lost. */
  onLost: ((detail: string) => void) | null;
}

export class Network {
  readonly time: VirtualTime;
  readonly chance: Chance;
  readonly shards: readonly SimulatedShard[];
  delays: Delays;
  readonly connections = new Set<Connection>();
  /** Until when nothing passes between a gateway and a shard. */
  readonly #partedUntilMs = new Map<string, number>();

  constructor(time: VirtualTime, chance: Chance, shards: readonly SimulatedShard[], delays: Delays) {
    this.time = time;
    this.chance = chance;
    this.shards = shards;
    this.delays = delays;
  }

  part(gateway: number, shard: number, forMs: number): void {
    const key = `${gateway} ${shard}`;
    this.#partedUntilMs.set(key, Math.max(this.#partedUntilMs.get(key) ?? 0, this.time.nowMs + forMs));
  }

  partedUntilMs(gateway: number, shard: number): number {
    return this.#partedUntilMs.get(`${gateway} ${shard}`) ?? 0;
  }

  /** How long a message takes. */
  delayMs(): number {
    const { leastMs, mostMs, lateShare, lateMs } = this.delays;
    const delayMs = this.chance.between(leastMs, mostMs);
    return lateShare > 0 && this.chance.happens(lateShare) ? delayMs + this.chance.between(0, lateMs) : delayMs;
  }

  /** `arrived` runs in the store, also if the gateway has given up the connection: the message is on its way. */
  toStore(connection: Connection, arrived: () => void): void {
    const atMs = this.#arrivalMs(connection, connection.toStoreMs);
    connection.toStoreMs = atMs;
    const isHeld = atMs > this.time.nowMs + 500;
    this.time.at(atMs, () => {
      if (connection.shard.isDown || connection.shard.epoch !== connection.epoch) return;
      // What was under way when its sender gave up may be lost with it.
      if (!connection.isOpen && this.chance.happens(isHeld ? 0.5 : 0.1)) return;
      arrived();
    });
  }

  toGateway(connection: Connection, arrived: () => void): void {
    const atMs = this.#arrivalMs(connection, connection.toGatewayMs);
    connection.toGatewayMs = atMs;
    this.time.at(atMs, arrived);
  }

  /** Both ends lose the connection; the gateway notices after a delay. */
  cut(connection: Connection, detail: string): void {
    if (!this.connections.delete(connection)) return;
    connection.isOpen = false;
    this.toGateway(connection, () => {
      const { onLost } = connection;
      connection.onLost = null;
      onLost?.(detail);
    });
  }

  #arrivalMs(connection: Connection, lastMs: number): number {
    const startMs = Math.max(this.time.nowMs, this.partedUntilMs(connection.gateway, connection.shard.number));
    return Math.max(lastMs, startMs + this.delayMs());
  }
}
