// The attacker's connections, all from one address: counts their bytes on the wire, and keeps the rate.
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import {
  attackerAddress,
  type Counters,
  connectionBytes,
  type Line,
  type LineOptions,
  type Ports,
  type Sender,
  wireBytes,
} from "./attack.ts";

/** At most this much is sent later to make up for a time in which the process had to wait. */
const burstMs = 20;
const tickMs = 2;

export interface SenderOptions {
  /** Of the attack. */
  readonly name: string;
  readonly ports: Ports;
  readonly seconds: number;
  readonly share: number;
}

export class CountingSender implements Sender {
  readonly counters: Counters = { bytes: 0, connections: 0, requests: 0, received: 0, answered: 0 };
  readonly name: string;
  readonly ports: Ports;
  readonly share: number;
  readonly #overAtMs: number;

  constructor({ name, ports, seconds, share }: SenderOptions) {
    this.name = name;
    this.ports = ports;
    this.share = share;
    this.#overAtMs = performance.now() + seconds * 1000;
  }

  get isOver(): boolean {
    return performance.now() >= this.#overAtMs;
  }

  open(options: LineOptions = {}): Line {
    this.counters.connections += 1;
    this.counters.bytes += connectionBytes;
    return new CountedLine(this.ports, this.counters, options);
  }

  async paced(bytesPerSecond: number, step: () => number): Promise<void> {
    const bytesPerMs = (this.share * bytesPerSecond) / 1000;
    let lastMs = performance.now();
    let allowed = 0;
    while (!this.isOver) {
      const nowMs = performance.now();
      allowed = Math.min(allowed + (nowMs - lastMs) * bytesPerMs, burstMs * bytesPerMs);
      lastMs = nowMs;
      while (allowed > 0 && !this.isOver) {
        const sent = step();
        if (sent === 0) break;
        allowed -= sent;
      }
      await sleep(tickMs);
    }
  }

  async hold(): Promise<void> {
    await sleep(Math.max(0, this.#overAtMs - performance.now()));
  }
}

class CountedLine implements Line {
  readonly socket: Socket;
  readonly #counters: Counters;
  readonly #isTls: boolean;
  #isClosed = false;

  constructor(ports: Ports, counters: Counters, options: LineOptions) {
    const { port = "traffic", alpn, before, reads = true, localAddress = attackerAddress } = options;
    this.#counters = counters;
    this.#isTls = alpn !== undefined;
    const tcp = connect({ port: ports[port], host: "127.0.0.1", localAddress, noDelay: true });
    if (before !== undefined) {
      tcp.write(before);
      counters.bytes += before.length;
    }
    this.socket = alpn === undefined ? tcp : connectTls({ socket: tcp, ...tlsOptions, ALPNProtocols: [...alpn] });
    // A TLS client that reads nothing would not finish its handshake.
    if (reads) this.socket.on("data", (data: Buffer) => this.#count(data));
    else if (alpn === undefined) this.socket.pause();
    this.socket.on("error", () => this.#close());
    this.socket.on("close", () => this.#close());
    tcp.on("error", () => this.#close());
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  get isBlocked(): boolean {
    return this.socket.writableLength > 64 * 1024;
  }

  write(bytes: Buffer, requests = 0): number {
    const wire = wireBytes(bytes.length, this.#isTls);
    this.#counters.bytes += wire;
    this.#counters.requests += requests;
    this.socket.write(bytes);
    return wire;
  }

  #count(data: Buffer): void {
    this.#counters.received += data.length;
  }

  #close(): void {
    this.#isClosed = true;
    this.socket.destroy();
  }
}

const tlsOptions = { servername: "localhost", rejectUnauthorized: false };
