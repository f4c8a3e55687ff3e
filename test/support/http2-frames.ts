// HTTP/2 frame by frame, for what no client library sends: every octet is the test's own choice. Fields go out as HPACK
// literals without an index, so nothing has to be remembered; what comes back is told by type, flags and stream.
import { connect as connectTcp, type Socket } from "node:net";
import { type ConnectionOptions, connect } from "node:tls";
import type { HeaderList } from "../../src/core/headers.ts";
import { HpackDecoder } from "../../src/http2/hpack.ts";
import type { Cleanup } from "./cleanup.ts";
import { eventually } from "./eventually.ts";

export const frameTypes = {
  data: 0,
  headers: 1,
  priority: 2,
  rstStream: 3,
  settings: 4,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;
export const endStream = 1;
export const endHeaders = 4;
const ack = 1;
const maxFrameBytes = 16_384;

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

export interface FrameClientOptions {
  /** SETTINGS. */
  readonly acknowledges?: boolean;
  readonly localAddress?: string;
}

export class FrameClient {
  readonly frames: Frame[] = [];
  readonly socket: Socket;
  isClosed = false;
  readonly #reader = new FrameReader();

  /** Says the preface with empty SETTINGS. `tls` is null for a port without it. */
  constructor(port: number, tls: ConnectionOptions | null, cleanup: Cleanup, options: FrameClientOptions = {}) {
    const host = "127.0.0.1";
    const to = { port, host, localAddress: options.localAddress ?? host };
    this.socket =
      tls === null ? connectTcp(to) : connect({ ...to, servername: "localhost", ALPNProtocols: ["h2"], ...tls });
    this.socket.setNoDelay(true);
    this.socket.on("data", (data: Buffer) => this.#read(data, options));
    this.socket.on("error", () => {});
    this.socket.on("close", () => {
      this.isClosed = true;
    });
    cleanup(() => this.socket.destroy());
    this.socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    this.send(frameTypes.settings, 0, 0);
  }

  send(type: number, flags: number, stream: number, payload: Buffer | string = ""): void {
    this.socket.write(frame(type, flags, stream, payload));
  }

  /** What does not fit into HEADERS goes in CONTINUATION. */
  headers(stream: number, fields: Fields, flags = endHeaders | endStream): void {
    const block = literals(fields);
    for (let at = 0; at === 0 || at < block.length; at += maxFrameBytes) {
      const ends = at + maxFrameBytes >= block.length ? flags & endHeaders : 0;
      const piece = block.subarray(at, at + maxFrameBytes);
      if (at === 0) this.send(frameTypes.headers, (flags & ~endHeaders) | ends, stream, piece);
      else this.send(frameTypes.continuation, ends, stream, piece);
    }
  }

  of(type: number, stream?: number): Frame[] {
    return this.frames.filter((one) => one.type === type && (stream === undefined || one.stream === stream));
  }

  /** The error codes of the GOAWAY frames so far. */
  get goaways(): number[] {
    return this.of(frameTypes.goaway).map(({ payload }) => payload.readUInt32BE(4));
  }

  /** How the stream ended: with END_STREAM, by a reset with this code, or not yet. */
  endOf(stream: number): "whole" | number | null {
    const [reset] = this.of(frameTypes.rstStream, stream);
    const isWhole = this.frames.some(
      (one) => one.stream === stream && one.type <= frameTypes.headers && (one.flags & endStream) !== 0,
    );
    if (isWhole) return "whole";
    return reset === undefined ? null : reset.payload.readUInt32BE(0);
  }

  async ended(stream: number): Promise<"whole" | number | null> {
    await eventually(`stream ${stream} ends`, () => this.endOf(stream) !== null || this.isClosed);
    return this.endOf(stream);
  }

  /** The fields of the first head on a stream. */
  headOf(stream: number): HeaderList {
    const decoder = new HpackDecoder();
    for (const { stream: id, payload } of this.of(frameTypes.headers)) {
      const fields = decoder.decode(payload, 0, payload.length);
      if (id === stream && typeof fields !== "string") return fields;
    }
    return [];
  }

  #read(data: Buffer, { acknowledges = true }: FrameClientOptions): void {
    for (const one of this.#reader.read(data)) {
      const { type, flags, payload } = one;
      this.frames.push(one);
      if (type === frameTypes.settings && flags === 0 && acknowledges) this.send(frameTypes.settings, ack, 0);
      if (type === frameTypes.ping && flags === 0) this.send(frameTypes.ping, ack, 0, payload);
    }
  }
}

/** Cuts bytes into frames, as they become whole. */
export class FrameReader {
  #rest: Buffer = Buffer.alloc(0);

  read(data: Buffer): Frame[] {
    const frames: Frame[] = [];
    this.#rest = Buffer.concat([this.#rest, data]);
    while (this.#rest.length >= 9) {
      const length = this.#rest.readUIntBE(0, 3);
      if (this.#rest.length < 9 + length) break;
      const [type, flags] = [this.#rest.readUInt8(3), this.#rest.readUInt8(4)];
      const stream = this.#rest.readUInt32BE(5) & 0x7fffffff;
      frames.push({ type, flags, stream, payload: this.#rest.subarray(9, 9 + length) });
      this.#rest = this.#rest.subarray(9 + length);
    }
    return frames;
  }
}

export type Fields = readonly (readonly [name: string, value: string])[];

export const get = (path = "/v2/x", ...more: Fields): Fields => [
  [":method", "GET"],
  [":scheme", "https"],
  [":authority", "api.test"],
  [":path", path],
  ["authorization", "Bearer secret-token"],
  ...more,
];

export const post = (...more: Fields): Fields => [[":method", "POST"], ...get("/v2/x", ...more).slice(1)];

export function frame(type: number, flags: number, stream: number, payload: Buffer | string = ""): Buffer {
  const body = typeof payload === "string" ? Buffer.from(payload, "latin1") : payload;
  const head = Buffer.alloc(9);
  head.writeUIntBE(body.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, body]);
}

/** RFC 7541, 6.2.2: literal field without indexing, new name, no Huffman coding. */
export function literals(fields: Fields): Buffer {
  return Buffer.concat(fields.flatMap(([name, value]) => [Buffer.of(0), text(name), text(value)]));
}

/** RFC 7541, 5.2, without Huffman coding. */
export function text(value: string): Buffer {
  const bytes = Buffer.from(value, "latin1");
  return Buffer.concat([integer(bytes.length), bytes]);
}

/** RFC 7541, 5.1, in the lowest bits of an octet whose other bits are `above`. */
export function integer(value: number, bits = 7, above = 0): Buffer {
  const mask = 2 ** bits - 1;
  if (value < mask) return Buffer.of(above + value);
  const bytes = [above + mask];
  let rest = value - mask;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}

export const code = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};
