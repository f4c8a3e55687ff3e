// nghttp2, in Node's client and server, as an encoder and a decoder of HPACK, and an encoder that is as naive as can be, to
// compare ours with.
import { once } from "node:events";
import { connect as connectHttp2, createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import fc from "fast-check";
import type { Cleanup } from "./cleanup.ts";
import { within } from "./eventually.ts";
import { FrameReader, frame, frameTypes, integer, text } from "./http2-frames.ts";

export type Field = readonly [name: string, value: string];

export const sizeOf = (fields: readonly Field[]): number =>
  fields.reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + Buffer.byteLength(value, "latin1") + 32, 0);

async function listen(cleanup: Cleanup, server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanup(() => void server.close());
  return (server.address() as AddressInfo).port;
}

/** Takes the header blocks of Node's client, which may use a table of `tableBytes`. */
export async function startEncoder(cleanup: Cleanup, tableBytes: number) {
  const blocks: Buffer[] = [];
  const port = await listen(
    cleanup,
    createServer((socket) => {
      const size = Buffer.from([0, 1, 0, 0, tableBytes >> 8, tableBytes & 255]);
      socket.write(frame(frameTypes.settings, 0, 0, size));
      const reader = new FrameReader();
      let preface = 24;
      socket.on("error", () => {});
      socket.on("data", (bytes: Buffer) => {
        const from = Math.min(preface, bytes.length);
        preface -= from;
        for (const { type, payload, flags, stream } of reader.read(bytes.subarray(from))) {
          if (type === frameTypes.settings && flags === 0) socket.write(frame(frameTypes.settings, 1, 0));
          if (type !== frameTypes.headers) continue;
          // With END_HEADERS alone, or with a priority before the block.
          blocks.push((flags & 0x20) === 0 ? payload : payload.subarray(5));
          socket.write(frame(frameTypes.headers, 5, stream, Buffer.of(0x88)));
        }
      });
    }),
  );
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  session.on("error", () => {});
  cleanup(() => session.destroy());
  await once(session, "remoteSettings");
  return {
    async encode(fields: readonly Field[]): Promise<Buffer> {
      const stream = session.request(Object.fromEntries(fields));
      stream.on("error", () => {});
      stream.resume();
      await within("an answer", once(stream, "response"));
      return blocks.shift() as Buffer;
    },
  };
}

export const base: readonly Field[] = [
  [":method", "GET"],
  [":path", "/v2/x"],
  [":scheme", "http"],
  [":authority", "api.test"],
];

export type Step =
  | { readonly kind: "resize"; readonly bytes: number }
  /** `name`: an index of the static table, of the dynamic one counted from the newest, or none. */
  | { readonly kind: "literal"; readonly form: number; readonly name: string | number; readonly value: string }
  | { readonly kind: "indexed"; readonly from: number };

/** Encodes as no library does, with a table of its own that is as naive as can be. */
export class NaiveEncoder {
  readonly #entries: Field[] = [];
  #max = 4096;

  encode(steps: readonly Step[]): { block: Buffer; fields: Field[] } {
    const fields: Field[] = [];
    const parts = steps.map((step) => {
      if (step.kind === "resize") {
        this.#resize(step.bytes);
        return integer(step.bytes, 5, 0x20);
      }
      if (step.kind === "indexed") {
        const at = step.from % Math.max(1, this.#entries.length);
        const entry = this.#entries[at];
        if (entry === undefined) return Buffer.alloc(0);
        fields.push(entry);
        return integer(62 + at, 7, 0x80);
      }
      return this.#literal(step, fields);
    });
    return { block: Buffer.concat(parts), fields };
  }

  #literal({ form, name, value }: Extract<Step, { kind: "literal" }>, fields: Field[]): Buffer {
    const [bits, above] = [[6, 0x40] as const, [4, 0x00] as const, [4, 0x10] as const][form] ?? [6, 0x40];
    const at = typeof name === "number" ? this.#entries.findIndex((_, i) => i === name) : -1;
    const key = typeof name === "string" ? name : (this.#entries[at]?.[0] ?? "x-new");
    const isReference = at !== -1;
    fields.push([key, value]);
    if (form === 0) this.#add([key, value]);
    const index = integer(isReference ? 62 + at : 0, bits, above);
    return Buffer.concat([index, isReference ? Buffer.alloc(0) : text(key), text(value)]);
  }

  #add(entry: Field): void {
    this.#entries.unshift(entry);
    this.#resize(this.#max);
  }

  #resize(bytes: number): void {
    this.#max = bytes;
    while (sizeOf(this.#entries) > bytes) this.#entries.pop();
  }
}

/** Tells how Node's server has decoded each block. */
export async function startDecoder(cleanup: Cleanup): Promise<(block: Buffer) => Promise<Field[]>> {
  const decoded: Field[][] = [];
  const server = createHttp2Server({ maxHeaderListPairs: 10_000, settings: { maxHeaderListSize: 1 << 24 } });
  let announce = (): void => {};
  server.on("stream", (stream: ServerHttp2Stream, _head, _flags, raw: string[]) => {
    decoded.push(raw.flatMap((name, i) => (i % 2 === 0 ? [[name, raw[i + 1] ?? ""] as const] : [])));
    stream.on("error", () => {});
    stream.respond({ ":status": 204 }, { endStream: true });
    announce();
  });
  const port = await listen(cleanup, server);
  const socket: Socket = connect(port, "127.0.0.1");
  cleanup(() => socket.destroy());
  socket.on("error", () => {});
  socket.resume();
  socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  socket.write(frame(frameTypes.settings, 0, 0));
  let stream = -1;
  return async (block) => {
    stream += 2;
    const next = new Promise<void>((resolve) => {
      announce = resolve;
    });
    socket.write(frame(frameTypes.headers, 5, stream, block));
    await within("the block is decoded", next);
    return decoded.shift() ?? [];
  };
}

export const pseudo: readonly Step[] = base.map(([name, value]) => ({ kind: "literal", form: 1, name, value }));

const resize = fc.record({ kind: fc.constant("resize" as const), bytes: fc.integer({ min: 0, max: 4096 }) });
const literal = fc.record({
  kind: fc.constant("literal" as const),
  form: fc.constantFrom(0, 0, 1, 2),
  name: fc.oneof(fc.constantFrom("x-a", "x-bb", "x-ccc"), fc.nat({ max: 40 })),
  value: fc.oneof(
    fc.nat({ max: 40 }).map((length) => "v".repeat(length)),
    fc.nat({ max: 4200 }).map((length) => "w".repeat(length)),
  ),
});
const indexed = fc.record({ kind: fc.constant("indexed" as const), from: fc.nat({ max: 60 }) });
export const resizes = fc.array(resize, { maxLength: 2 });
export const plain = fc.array(fc.oneof(literal, indexed, indexed), { maxLength: 60 });
