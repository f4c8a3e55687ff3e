// Sends one input on several connections at once, each from an address of its own, and measures what the gateway spends
// on it: from the moment when all connections are open until it is at rest again, and have been closed.
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { GatewayProcess } from "./gateway-process.ts";
import { frameTypes, maxInputBytes, type Rendered } from "./input.ts";

export interface Carrier {
  /** A listener of the gateway. */
  readonly listener: string;
  /** Null: without TLS. */
  readonly alpn: "h2" | "http/1.1" | null;
  /** The same address for all connections, for example one without quota; null: each has an address of its own. */
  readonly address: string | null;
}

export interface Spent {
  /** By one connection. */
  readonly cpuUs: number;
  /** Requests on one connection: those that were answered, or the streams that were opened. At least one. */
  readonly requests: number;
  /** How the gateway answered: the first and the last status, or the frames that ended it. */
  readonly outcome: string;
}

export interface Sending extends Rendered {
  readonly pieceBytes: number;
}

/** An address that has spent its quota at each gateway. */
export const exhaustedAddress = "127.250.0.1";

let addresses = 0;

/** Returns another address of 127.0.0.0/8 each time. */
export function freshAddress(): string {
  addresses += 1;
  return `127.${1 + ((addresses >> 16) % 200)}.${(addresses >> 8) & 255}.${1 + (addresses % 254)}`;
}

export interface Effort {
  readonly connections: number;
  /** The gateway is at rest when it has used no CPU for so long. */
  readonly calmMs: number;
}

/** From the moment when all connections are open until they are closed. */
export async function measure(
  gateway: GatewayProcess,
  carrier: Carrier,
  sending: Sending,
  { connections, calmMs }: Effort,
): Promise<Spent> {
  const lines = await Promise.all(Array.from({ length: connections }, () => Line.open(gateway, carrier)));
  const before = await gateway.atRest(calmMs);
  await Promise.all(lines.map((line) => line.send(sending)));
  await gateway.atRest(calmMs);
  for (const line of lines) line.close();
  const after = await gateway.atRest(calmMs);
  return { cpuUs: (after - before) / connections, ...answersTo(sending, carrier, lines[0]) };
}

/** One connection, opening and closing included, which is quicker and less exact. */
export async function glance(gateway: GatewayProcess, carrier: Carrier, sending: Sending): Promise<Spent> {
  const before = gateway.cpuUs();
  const line = await Line.open(gateway, carrier);
  await line.send(sending);
  await gateway.atRest(1);
  line.close();
  const after = await gateway.atRest(1);
  return { cpuUs: after - before, ...answersTo(sending, carrier, line) };
}

/** Keeps what was sent on so many connections open. Resolves with the function that closes them. */
export async function hold(
  gateway: GatewayProcess,
  carrier: Carrier,
  sendings: readonly Sending[],
): Promise<() => void> {
  const lines: Line[] = [];
  for (const sending of sendings) {
    const line = await Line.open(gateway, carrier);
    await line.send(sending);
    lines.push(line);
  }
  return () => {
    for (const line of lines) line.close();
  };
}

function answersTo(sending: Sending, { alpn, listener }: Carrier, line: Line | undefined) {
  const isHttp2 = alpn === "h2" || listener === "grpc";
  const { count, outcome } = line?.answers(isHttp2) ?? { count: 0, outcome: "none" };
  return { requests: Math.max(1, isHttp2 ? sending.streams : count), outcome };
}

/** TCP and IP take 40 bytes of each packet, TLS 22. */
const bytesOfPacket = 62;

/** Packets for so many bytes, with all of them on the wire in `maxBytes`. */
function maxPackets(bytes: number, maxBytes: number): number {
  return Math.max(1, Math.floor((maxBytes - bytes) / bytesOfPacket));
}

/** The size of a piece: that of the input, or larger if its packets would exceed the bytes of an input. */
export function pieceSize({ bytes, pieceBytes }: Pick<Sending, "bytes" | "pieceBytes">): number {
  if (pieceBytes === 0) return bytes.length;
  return Math.max(pieceBytes, Math.ceil(bytes.length / maxPackets(bytes.length, maxInputBytes)));
}

/** What an input takes on the wire; one packet is free, as for an ordinary request. */
export function wireBytes(sending: Pick<Sending, "bytes" | "pieceBytes">): number {
  const packets = Math.ceil(sending.bytes.length / Math.max(1, pieceSize(sending)));
  return sending.bytes.length + Math.max(0, packets - 1) * bytesOfPacket;
}

/** Writes each piece in a packet of its own. */
export async function writePieces(socket: Socket, sending: Pick<Sending, "bytes" | "pieceBytes">): Promise<void> {
  const { bytes } = sending;
  const size = pieceSize(sending);
  for (let at = 0; at < bytes.length && socket.writable; at += size) {
    socket.write(bytes.subarray(at, at + size));
    if (size < bytes.length) await new Promise((resolve) => setImmediate(resolve));
  }
}

class Line {
  readonly #socket: Socket;
  #received = "";
  #isClosed = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on("data", (bytes: Buffer) => {
      if (this.#received.length < 65_536) this.#received += bytes.toString("latin1");
    });
    socket.on("close", () => {
      this.#isClosed = true;
    });
  }

  static async open(gateway: GatewayProcess, carrier: Carrier): Promise<Line> {
    return new Line(await openSocket(gateway, carrier));
  }

  send(sending: Sending): Promise<void> {
    return writePieces(this.#socket, sending);
  }

  close(): void {
    this.#socket.destroy();
  }

  answers(isHttp2: boolean): { count: number; outcome: string } {
    if (isHttp2) return framesIn(this.#received);
    const statuses = [...this.#received.matchAll(/HTTP\/1\.1 ([2-5]\d\d) /g)].map(([, status]) => status);
    const ends = new Set([statuses[0] ?? "none", statuses.at(-1) ?? (this.#isClosed ? "closed" : "open")]);
    return { count: statuses.length, outcome: [...ends].join(" ") };
  }
}

export async function openSocket(gateway: GatewayProcess, { listener, alpn, address }: Carrier): Promise<Socket> {
  const localAddress = address ?? freshAddress();
  const tcp = connect({ port: gateway.port(listener), host: "127.0.0.1", localAddress });
  if (alpn === null) return settled(tcp, "connect");
  await settled(tcp, "connect");
  return settled(connectTls({ socket: tcp, ALPNProtocols: [alpn], rejectUnauthorized: false }), "secureConnect");
}

function settled<S extends Socket>(socket: S, event: "connect" | "secureConnect"): Promise<S> {
  return new Promise((resolve, reject) => {
    socket.once(event, () => resolve(socket));
    // Later a reset is one way to refuse an input.
    socket.on("error", reject);
    socket.once("close", () => reject(new Error("The gateway closed a connection before its first byte.")));
  });
}

function framesIn(received: string): { count: number; outcome: string } {
  let count = 0;
  const kinds = new Set<string>();
  for (let at = 0; at + 9 <= received.length; ) {
    const length = received.charCodeAt(at) * 65_536 + received.charCodeAt(at + 1) * 256 + received.charCodeAt(at + 2);
    const type = received.charCodeAt(at + 3);
    if (type === frameTypes.headers) {
      count += 1;
      kinds.add("headers");
    } else if (type === frameTypes.reset) kinds.add(`reset ${received.charCodeAt(at + 12)}`);
    else if (type === frameTypes.goAway) kinds.add(`goaway ${received.charCodeAt(at + 16)}`);
    at += 9 + length;
  }
  return { count, outcome: [...kinds].sort().join(" ") || "none" };
}
