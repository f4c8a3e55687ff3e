// The slots of a cluster: which one a tag is in, and who has which slots by CLUSTER SLOTS.
import type { HostPort } from "../core/host-port.ts";

export const slotCount = 16_384;

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
export interface SlotRange {
  readonly first: number;
  readonly last: number;
  readonly primary: HostPort;
  readonly replicas: readonly HostPort[];
}

/** A cluster has at most so many primaries that make sense; what says more is no cluster. */
const mostRanges = slotCount;

/** Parses the reply of CLUSTER SLOTS; null if it is none. A node without a host is at the host that was asked. */
export function parseSlots(reply: unknown, askedHost: string): SlotRange[] | null {
  if (!Array.isArray(reply) || reply.length > mostRanges) return null;
  const ranges: SlotRange[] = [];
  for (const entry of reply) {
    const range = parseRange(entry, askedHost);
    if (range === null) return null;
    if (range !== "unknown") ranges.push(range);
  }
  return ranges;
}

function parseRange(entry: unknown, askedHost: string): SlotRange | "unknown" | null {
  if (!Array.isArray(entry)) return null;
  const [first, last, ...nodes]: unknown[] = entry;
  if (!isSlot(first) || !isSlot(last)) return null;
  const [primary, ...replicas] = nodes.map((node) => parseNode(node, askedHost));
  // A node that the others do not know how to reach.
  if (primary === null || primary === undefined) return "unknown";
  return { first, last, primary, replicas: replicas.filter((replica) => replica !== null) };
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

export interface Redirection {
  readonly isAsk: boolean;
  readonly address: HostPort;
}

/** Parses "MOVED 3999 127.0.0.1:6381" and "ASK 3999 127.0.0.1:6381"; null for other errors. */
export function parseRedirection(errorReply: string, askedHost: string): Redirection | null {
  const [, code, host, port] = /^(MOVED|ASK) \d+ (\S*):(\d+)$/.exec(errorReply) ?? [];
  if (code === undefined || host === undefined) return null;
  return { isAsk: code === "ASK", address: { host: host === "" ? askedHost : host, port: Number(port) } };
}
