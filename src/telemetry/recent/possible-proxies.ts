// Finds peers that may be proxies which nobody trusts: peers of the gateway's own network whose requests name many clients. A
// client that invents addresses looks the same, so this changes no decision, and few peers are named. All threads share the
// memory without locks: if two threads write in the same moment, one address may be lost, or a peer may be named twice.
import type { Peer } from "../../core/client-address.ts";
import { addressKey, addressOfKey, type CounterKey } from "../../core/counter-key.ts";
import type { IpAddress } from "../../core/ip-address.ts";

/** A peer is named once it has named this many addresses within this time. */
const minAddresses = 20;
const windowMs = 10_000;

const maxNamed = 4;
const namedForMs = 600_000;

// A row is about one peer: the four words of its address, until when it is named, and the last addresses that it named, each
// as a hash and the instant from which it is too old. The cell before the rows counts the peers that have got a row.
const rows = 64;
const namedUntil = 4;
const hashes: readonly number[] = Array.from({ length: minAddresses }, (_, i) => namedUntil + 1 + 2 * i);
const secondUntil = namedUntil + 4;
const stride = namedUntil + 1 + 2 * minAddresses;

export class PossibleProxies {
  static readonly bytes = Float64Array.BYTES_PER_ELEMENT * (1 + rows * stride);
  readonly #given: Float64Array;
  readonly #rows: readonly Float64Array[];

  /** Uses the last bytes of `memory`. */
  constructor(memory = new SharedArrayBuffer(PossibleProxies.bytes)) {
    const cells = new Float64Array(memory, memory.byteLength - PossibleProxies.bytes);
    this.#given = cells;
    this.#rows = Array.from({ length: rows }, (_, i) => cells.subarray(1 + i * stride, 1 + (i + 1) * stride));
  }

  /** `client`: the address that a request of the peer names. Returns true if the peer is to be named now. */
  note(peer: Peer, client: IpAddress, nowMs: number): boolean {
    const row = this.#rowOf(addressKey(peer.address, 128), nowMs);
    if (at(row, namedUntil) > nowMs) return false;
    const hash = client.reduce((sum, group) => Math.imul(sum ^ group, 0x01000193), 0x811c9dc5);
    const known = hashes.find((cell) => at(row, cell) === hash);
    const cell = known ?? hashes.reduce((oldest, each) => (at(row, each + 1) < at(row, oldest + 1) ? each : oldest));
    row[cell] = hash;
    row[cell + 1] = nowMs + windowMs;
    const areMany = hashes.every((each) => at(row, each + 1) > nowMs);
    if (!areMany || this.named(nowMs).length >= maxNamed) return false;
    row[namedUntil] = nowMs + namedForMs;
    return true;
  }

  /** The peers that were named in the last ten minutes. */
  named(nowMs: number): readonly IpAddress[] {
    const named = this.#rows.filter((row) => at(row, namedUntil) > nowMs);
    return named.map(([a = 0, b = 0, c = 0, d = 0]) => addressOfKey({ a, b, c, d }));
  }

  /** Returns the row of the peer. All addresses of an IPv6 /64 are one peer. */
  #rowOf({ a, b, c, d }: CounterKey, nowMs: number): Float64Array {
    const isOf = (row: Float64Array) => row[0] === a && row[1] === b && (a !== 0 || (row[2] === c && row[3] === d));
    const known = this.#rows.find(isOf);
    if (known !== undefined) return known;
    // A named one keeps its row, and so does one that has named two addresses, as long as another row can go.
    const unnamed = this.#rows.filter((row) => at(row, namedUntil) <= nowMs);
    const single = unnamed.filter((row) => at(row, secondUntil) <= nowMs);
    const free = single.length > 0 ? single : unnamed;
    const given = at(this.#given, 0);
    this.#given[0] = given + 1;
    const row = free[given % free.length] as Float64Array;
    row.fill(0);
    row.set([a, b, c, d]);
    return row;
  }
}

function at(cells: Float64Array, cell: number): number {
  return cells[cell] as number;
}
