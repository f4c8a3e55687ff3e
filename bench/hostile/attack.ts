// The types of an attack: a name, a carrier, the configuration that it needs, and a function that sends it until the
// time is over. An attack runs in a process of its own, so nothing of it remains.
import type { Socket } from "node:net";

export type Carrier = "http1" | "tls" | "http2" | "ext-auth" | "grpc" | "proxy" | "tunnel" | "admin" | "upstream";

export interface Ports {
  readonly traffic: number;
  readonly admin: number;
  /** Checks over HTTP and over gRPC. */
  readonly checks: number;
  readonly grpc: number;
}

/** Keys of the gateway's configuration that replace those of the bench. */
export type Keys = Readonly<Record<string, unknown>>;

/**
 * What the other clients do during the attack: requests on kept connections, requests on new ones, WebSockets, checks
 * over HTTP, or probes of the admin listener.
 */
export type OthersKind = "kept" | "fresh" | "upgrade" | "check" | "probe";

export interface Attack {
  /** Names are unique; `--only` takes them. */
  readonly name: string;
  readonly carrier: Carrier;
  /** For the table. */
  readonly what: string;
  readonly keys?: Keys;
  /** Whether the counters are in a Redis server of the bench, with a prefix of their own. */
  readonly usesStore?: boolean;
  /**
   * How long the attack takes to open what it holds. The bench runs for so much longer, and measures the latencies of the
   * others only afterwards.
   */
  readonly openingSeconds?: number;
  /** A goal of this attack alone: no request of the others waits longer. */
  readonly longestWaitMs?: number;
  /** By default, what is usual for the carrier. */
  readonly others?: OthersKind;
  /** Sends the attack. Resolves no later than when `sender.isOver`. */
  readonly send: (sender: Sender) => Promise<void>;
  /** Answers `GET /v1/hostile/<name>`. Its bytes are the attack's. */
  readonly respond?: (answer: HostileAnswer) => void;
}

/**
 * What an attack counts. `bytes` are those on the wire, with 40 of TCP and IP for each packet, 22 for each TLS record.
 */
export interface Counters {
  bytes: number;
  connections: number;
  /** Request heads, whole or not. */
  requests: number;
  /** Bytes that came back. */
  received: number;
  /** Bytes that the upstream sent for it, if the upstream is not the attacker. */
  answered: number;
}

export interface LineOptions {
  readonly port?: keyof Ports;
  /** Protocols for ALPN; without it, the connection is plain. */
  readonly alpn?: readonly string[];
  /** Sent in plain, before TLS. */
  readonly before?: Buffer;
  /** Whether what comes back is read. */
  readonly reads?: boolean;
  readonly localAddress?: string;
}

/** A connection of an attacker. */
export interface Line {
  readonly socket: Socket;
  readonly isClosed: boolean;
  /** The kernel's buffers are full. */
  readonly isBlocked: boolean;
  /** Returns the bytes on the wire. */
  write(bytes: Buffer, requests?: number): number;
}

export interface Sender {
  readonly isOver: boolean;
  /** The part of its connections and of its bytes a second that the attack has; 1 if it runs alone. */
  readonly share: number;
  readonly counters: Counters;
  readonly name: string;
  readonly ports: Ports;
  open(options?: LineOptions): Line;
  /** Calls `step`, which returns the bytes that it sent (0: none now), at that rate until the time is over. */
  paced(bytesPerSecond: number, step: () => number): Promise<void>;
  /** Resolves when the time is over. */
  hold(): Promise<void>;
}

/** The response of a hostile upstream, written at 1 MB/s at most. */
export interface HostileAnswer {
  readonly socket: Socket;
  readonly isOver: boolean;
  /** Writes pieces until null, or until the connection is closed. */
  pour(next: (i: number) => Buffer | null, options?: { packetBytes?: number; bytesPerSecond?: number }): Promise<void>;
}

/** Bytes on the wire of one write. */
export function wireBytes(length: number, isTls = false): number {
  const packets = 1 + Math.floor(length / 1448);
  return length + 40 * packets + (isTls ? 22 * (1 + Math.floor(length / 16384)) : 0);
}

/** SYN, ACK and FIN. */
export const connectionBytes = 160;

export const attackerAddress = "127.0.0.9";

export const text = (value: string): Buffer => Buffer.from(value, "latin1");
