// The link to a cluster: one shard for each primary that has slots. It follows the slots as they move and primaries as
// they are replaced, and follows a redirection of a call once.
import type { HostPort } from "../../../core/ip-address.ts";
import type { CallFailure, OnAnswer, StoreEvents, StoreIdentity, StoreLink } from "../../../core/store-link.ts";
import { type Connection, type Opener, openConnection } from "./connection.ts";
import { failureAt, failureOf, StoreError, unreachable } from "./replies.ts";
import { ShardLink } from "./shard-link.ts";

const calmMs = 5_000;
const firstDelayMs = 50;
const longestDelayMs = 1_000;
/** A shard with one slot of 16,384 is missed by one search in ten million. */
const mostTags = 262_144;
const mostShards = 1_024;

interface Primary {
  readonly shard: ShardLink;
  readonly address: HostPort;
  /** The last that was found in a slot of it. */
  tag: string;
}

export class ClusterLink implements StoreLink {
  readonly isClustered = true;
  shards: readonly number[] = [];
  events: StoreEvents = { onConnected() {}, onDisconnected() {}, onGone() {} };
  readonly #opener: Opener;
  readonly #map: ClusterMap;
  readonly #primaries = new Map<number, Primary>();
  readonly #byAddress = new Map<string, Primary>();
  /** The shard of each slot; -1 if nobody knows. */
  readonly #slots = new Int32Array(slotCount).fill(-1);
  readonly #closed = new AbortController();
  #nextNumber = 0;
  #failure: CallFailure = unreachable("the cluster was not found yet");
  /** Null while the map is read. */
  #timer: NodeJS.Timeout | null = null;
  #delayMs = firstDelayMs;
  #isSoon = false;
  #refreshed: Promise<void> = Promise.resolve();
  /** Of all shards that have left. */
  #ended: Promise<void> = Promise.resolve();

  constructor(opener: Opener, addresses: readonly HostPort[]) {
    this.#opener = opener;
    this.#map = new ClusterMap(opener, addresses);
  }

  shardOf(tag: string): number {
    return this.#slots[slotOf(tag)] ?? -1;
  }

  anyTagOf(shard: number): string | null {
    const primary = this.#primaries.get(shard);
    if (primary === undefined) return null;
    if (this.shardOf(primary.tag) !== shard && !this.#slots.includes(shard)) return null;
    for (let i = 0; this.shardOf(primary.tag) !== shard; i += 1) {
      if (i === mostTags) return null;
      primary.tag = String(i);
    }
    return primary.tag;
  }

  call(shard: number, keys: readonly string[], args: readonly string[], answered: OnAnswer): void {
    const primary = this.#primaryOr(shard, (failure) => answered(null, failure));
    primary?.shard.call(shard, keys, args, (reply, failure, errorReply = "") => {
      if (failure?.kind === "unready") this.#refreshSoon();
      const redirection = failure && parseRedirection(errorReply, primary.address.host);
      // It is followed to a server that the cluster's own list names, not to any address.
      const target = redirection && this.#byAddress.get(keyOf(redirection.address));
      if (target) target.shard.call(target.shard.number, keys, args, answered, redirection.isAsk);
      else answered(reply, failure);
    });
  }

  identify(shard: number, identified: (identity: StoreIdentity | null, failure: CallFailure | null) => void): void {
    this.#primaryOr(shard, (failure) => identified(null, failure))?.shard.identify(shard, identified);
  }

  reconnect(shard: number): void {
    this.#primaries.get(shard)?.shard.reconnect();
  }

  open(): void {
    this.#refreshed = this.#refresh();
  }

  async close(): Promise<void> {
    this.#closed.abort();
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    for (const { shard } of this.#primaries.values()) this.#close(shard);
    await this.#refreshed;
    await this.#ended;
  }

  #primaryOr(shard: number, onFailure: (failure: CallFailure) => void): Primary | undefined {
    const primary = this.#primaries.get(shard);
    if (primary !== undefined) return primary;
    const isKnown = this.#primaries.size > 0;
    const failure: CallFailure = isKnown ? { kind: "unready", detail: "the slot has no server" } : this.#failure;
    queueMicrotask(() => onFailure(failure));
    this.#refreshSoon();
    return undefined;
  }

  async #refresh(): Promise<void> {
    this.#timer = null;
    await this.#readMap();
    if (this.#closed.signal.aborted) return;
    const primaries = [...this.#primaries.values()];
    const isCalm = primaries.length > 0 && primaries.every(({ shard }) => shard.connection !== null);
    if (isCalm) this.#delayMs = firstDelayMs;
    this.#refreshIn(isCalm ? calmMs : this.#delayMs);
    this.#delayMs = Math.min(this.#delayMs * 2, longestDelayMs);
  }

  /** Something shows that the map is old. */
  #refreshSoon(): void {
    if (this.#timer === null || this.#isSoon) return;
    clearTimeout(this.#timer);
    this.#refreshIn(firstDelayMs);
  }

  #refreshIn(ms: number): void {
    this.#isSoon = ms <= longestDelayMs;
    this.#timer = setTimeout(() => this.open(), ms * (0.5 + Math.random() / 2));
  }

  async #readMap(): Promise<void> {
    const connected = [...this.#primaries.values()].flatMap(({ shard }) => shard.connection ?? []);
    const { signal } = this.#closed;
    try {
      const ranges = await this.#map.read(connected, signal);
      if (ranges !== null && !signal.aborted) this.#apply(ranges);
    } catch (error) {
      this.#failure = failureOf(error);
      if (this.#primaries.size === 0 && !signal.aborted) this.events.onConnectFailed?.(null, this.#failure);
    }
  }

  #apply(ranges: readonly SlotRange[]): void {
    const keys = new Set(ranges.map(({ primary }) => keyOf(primary)));
    if (keys.size > mostShards) {
      this.#failure = { kind: "failed", detail: `the cluster has more than ${mostShards} primaries` };
      return;
    }
    const opened: ShardLink[] = [];
    this.#slots.fill(-1);
    for (const { first, last, primary } of ranges) {
      this.#slots.fill(this.#primaryAt(primary, opened).shard.number, first, last + 1);
    }
    const gone = [...this.#byAddress].filter(([key]) => !keys.has(key));
    for (const [key, { shard }] of gone) {
      this.#byAddress.delete(key);
      this.#primaries.delete(shard.number);
      this.#close(shard);
    }
    this.shards = [...this.#primaries.keys()];
    for (const shard of opened) shard.open();
    for (const [, { shard }] of gone) this.events.onGone(shard.number);
  }

  #primaryAt(address: HostPort, opened: ShardLink[]): Primary {
    const known = this.#byAddress.get(keyOf(address));
    if (known !== undefined) return known;
    const number = this.#nextNumber++;
    const shard = new ShardLink(this.#opener, () => address, number);
    shard.events = {
      ...this.events,
      onDisconnected: (lost, failure) => {
        this.#refreshSoon();
        this.events.onDisconnected(lost, failure);
      },
    };
    const primary = { shard, address, tag: "0" };
    this.#byAddress.set(keyOf(address), primary);
    this.#primaries.set(number, primary);
    opened.push(shard);
    return primary;
  }

  #close(shard: ShardLink): void {
    const others = this.#ended;
    this.#ended = shard.close().then(() => others);
  }
}

function keyOf({ host, port }: HostPort): string {
  return `${host} ${port}`;
}

// Reads from the nodes of a cluster who has which slots. A node that is cut off from the others names what was; its map
// is not used while newer ones are known.

/** So many old maps in a row: the cluster was made anew. */
const mostOld = 20;
const mostNodes = 4_096;

class ClusterMap {
  readonly #opener: Opener;
  readonly #configured: readonly HostPort[];
  /** Nodes that the last map named, replicas too. */
  #known: readonly HostPort[] = [];
  #turn = 0;
  /** Grows with each change in the cluster. */
  #epoch = 0;
  #old = 0;

  constructor(opener: Opener, configured: readonly HostPort[]) {
    this.#opener = opener;
    this.#configured = configured;
  }

  /** Asks one node, another one each time. Resolves with null if its map is old; rejects with a StoreError. */
  async read(connected: readonly Connection[], signal: AbortSignal): Promise<SlotRange[] | null> {
    const turn = this.#turn++;
    const used = connected[turn % Math.max(1, connected.length)];
    // Now and then another node is asked: all that is connected may be on the wrong side of a partition.
    if (used !== undefined && turn % 4 !== 3) return this.#readFrom(used);
    const nodes = [...this.#configured, ...this.#known];
    const address = nodes[Math.floor(used === undefined ? turn : turn / 4) % nodes.length];
    if (address === undefined) throw new StoreError(unreachable("no node of the cluster is configured"));
    const connection = await openConnection("node", this.#opener, address, signal);
    try {
      return await this.#readFrom(connection);
    } catch (error) {
      throw new StoreError(failureAt(address, failureOf(error)));
    } finally {
      connection.drop(unreachable("not needed any more"));
    }
  }

  async #readFrom(connection: Connection): Promise<SlotRange[] | null> {
    const ask = (section: string) => connection.askWithin(this.#opener.connectTimeoutMs, "cluster", section);
    const [about, reply] = await Promise.all([ask("INFO"), ask("SLOTS")]);
    const ranges = parseSlots(reply, connection.address.host);
    if (ranges === null) throw new StoreError({ kind: "failed", detail: "CLUSTER SLOTS was answered with no list" });
    if (ranges.length === 0) throw new StoreError({ kind: "unready", detail: "no slot has a server" });
    const epoch = Number(/cluster_current_epoch:(\d+)/.exec(String(about))?.[1] ?? 0);
    if (epoch < this.#epoch && this.#old < mostOld) {
      this.#old += 1;
      return null;
    }
    this.#epoch = epoch;
    this.#old = 0;
    this.#known = ranges.flatMap(({ primary, replicas }) => [primary, ...replicas]).slice(0, mostNodes);
    return ranges;
  }
}

// The slots of a cluster: which one a tag is in, and who has which slots by CLUSTER SLOTS.

const slotCount = 16_384;

const table = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit += 1) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  return crc;
});

/** CRC-16/XMODEM of the tag's bytes, as the specification of Redis Cluster has it. The tag is ASCII. */
export function slotOf(tag: string): number {
  let crc = 0;
  for (let i = 0; i < tag.length; i += 1) {
    crc = ((crc << 8) & 0xffff) ^ (table[((crc >> 8) ^ tag.charCodeAt(i)) & 0xff] ?? 0);
  }
  return crc % slotCount;
}

/** A primary has the slots from `first` until `last`, both inclusive. */
interface SlotRange {
  readonly first: number;
  readonly last: number;
  readonly primary: HostPort;
  readonly replicas: readonly HostPort[];
}

/** Parses the reply of CLUSTER SLOTS; null if it is none. A node without a host is at the host that was asked. */
export function parseSlots(reply: unknown, askedHost: string): SlotRange[] | null {
  if (!Array.isArray(reply) || reply.length > slotCount) return null;
  const ranges: SlotRange[] = [];
  for (const entry of reply) {
    const [first, last, ...nodes]: unknown[] = Array.isArray(entry) ? entry : [];
    if (!isSlot(first) || !isSlot(last)) return null;
    const [primary, ...replicas] = nodes.map((node) => parseNode(node, askedHost));
    // The others may not know how to reach a node.
    if (primary) ranges.push({ first, last, primary, replicas: replicas.filter((replica) => replica !== null) });
  }
  return ranges;
}

function isSlot(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value < slotCount;
}

function parseNode(node: unknown, askedHost: string): HostPort | null {
  if (!Array.isArray(node)) return null;
  const [named, port]: unknown[] = node;
  const host = named === null || named === "" ? askedHost : named;
  if (typeof host !== "string" || host === "?" || typeof port !== "number" || port < 1 || port > 65_535) return null;
  return { host, port };
}

interface Redirection {
  readonly isAsk: boolean;
  readonly address: HostPort;
}

/** Parses "MOVED 3999 127.0.0.1:6381" and "ASK 3999 127.0.0.1:6381"; null for other errors. */
export function parseRedirection(errorReply: string, askedHost: string): Redirection | null {
  const [, code, host, port] = /^(MOVED|ASK) \d+ (\S*):(\d+)$/.exec(errorReply) ?? [];
  if (code === undefined || host === undefined) return null;
  return { isAsk: code === "ASK", address: { host: host === "" ? askedHost : host, port: Number(port) } };
}
