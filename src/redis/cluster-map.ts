// Reads from the nodes of a cluster who has which slots. A node that is cut off from the others names what was; its map
// is not used while newer ones are known.
import type { HostPort } from "../core/host-port.ts";
import { answerWithin } from "./answer-within.ts";
import { StoreError, unreachable } from "./call-failure.ts";
import type { Connection } from "./connection.ts";
import { type Opener, openAny } from "./handshake.ts";
import { parseSlots, type SlotRange } from "./slots.ts";

/** So many old maps in a row: the cluster was made anew. */
const mostOld = 20;
const mostNodes = 4_096;

export class ClusterMap {
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
    const connection = await openAny(this.#opener, address, signal);
    try {
      return await this.#readFrom(connection);
    } finally {
      connection.drop(unreachable("not needed any more"));
    }
  }

  async #readFrom(connection: Connection): Promise<SlotRange[] | null> {
    const ask = (section: string) => answerWithin(connection, this.#opener.connectTimeoutMs, "cluster", section);
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
