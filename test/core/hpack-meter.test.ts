// The meter is compared with what it must agree with, which is nghttp2: what Node's client encodes, and what Node's
// server decodes.
import { once } from "node:events";
import { connect as connectHttp2, createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { HpackMeter } from "../../src/core/hpack-meter.ts";
import { useCleanup } from "../support/cleanup.ts";
import { within } from "../support/eventually.ts";
import { FrameReader, frame, frameTypes, integer, text } from "../support/http2-frames.ts";

const cleanup = useCleanup();
const cases = { numRuns: 60 };

type Field = readonly [name: string, value: string];

const sizeOf = (fields: readonly Field[]): number =>
  fields.reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + Buffer.byteLength(value, "latin1") + 32, 0);

/** In pieces of every size, because frames come as the network cuts them. */
function measure(meter: HpackMeter, block: Buffer, pieceBytes = block.length): { bytes: number; fields: number } {
  meter.begin();
  for (let at = 0; at < block.length; at += pieceBytes) {
    if (!meter.read(block, at, Math.min(block.length, at + pieceBytes))) throw new Error("not HPACK");
  }
  return { bytes: meter.decodedBytes, fields: meter.fields };
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanup(() => void server.close());
  return (server.address() as AddressInfo).port;
}

/** Takes the header blocks of Node's client, which may use a table of `tableBytes`. */
async function startEncoder(tableBytes: number) {
  const blocks: Buffer[] = [];
  const port = await listen(
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

const base: readonly Field[] = [
  [":method", "GET"],
  [":path", "/v2/x"],
  [":scheme", "http"],
  [":authority", "api.test"],
];

describe("what Node's client encodes", () => {
  test.each([4096, 300, 0])("measures as it was, with a table of %d bytes", async (tableBytes) => {
    const { encode } = await startEncoder(tableBytes);
    const meter = new HpackMeter();
    const name = fc.constantFrom("x-a", "x-b", "x-long-name", "accept", "user-agent");
    const value = fc.string({ unit: fc.constantFrom("a", "0", "%", "~", "é", "{", "\\"), maxLength: 80 });
    const extra = fc.uniqueArray(fc.tuple(name, value), { selector: ([key]) => key });
    const property = fc.asyncProperty(extra, fc.integer({ min: 1, max: 40 }), async (more, pieceBytes) => {
      const fields = [...base, ...more.map(([key, text]) => [key, text.trim()] as const)];
      const block = await encode(fields);
      expect(measure(meter, block, pieceBytes)).toEqual({ bytes: sizeOf(fields), fields: fields.length });
    });
    await fc.assert(property, cases);
  });

  test("measures as it was, with each octet in a Huffman text", async () => {
    const { encode } = await startEncoder(4096);
    const meter = new HpackMeter();
    measure(meter, await encode(base));
    let shortened = 0;
    for (let octet = 1; octet < 256; octet += 1) {
      const fields: Field[] = [...base, ["x-octet", `${"a".repeat(40)}${String.fromCharCode(octet)}${"e".repeat(40)}`]];
      const block = await encode(fields);
      if (block.length < 80) shortened += 1;
      expect(measure(meter, block)).toEqual({ bytes: sizeOf(fields), fields: fields.length });
    }
    expect(shortened).toBe(255);
  });
});

type Step =
  | { readonly kind: "resize"; readonly bytes: number }
  /** `name`: an index of the static table, of the dynamic one counted from the newest, or none. */
  | { readonly kind: "literal"; readonly form: number; readonly name: string | number; readonly value: string }
  | { readonly kind: "indexed"; readonly from: number };

/** Encodes as no library does, with a table of its own that is as naive as can be. */
class NaiveEncoder {
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
async function startDecoder(): Promise<(block: Buffer) => Promise<Field[]>> {
  const decoded: Field[][] = [];
  const server = createHttp2Server({ maxHeaderListPairs: 10_000, settings: { maxHeaderListSize: 1 << 24 } });
  let announce = (): void => {};
  server.on("stream", (stream: ServerHttp2Stream, _head, _flags, raw: string[]) => {
    decoded.push(raw.flatMap((name, i) => (i % 2 === 0 ? [[name, raw[i + 1] ?? ""] as const] : [])));
    stream.on("error", () => {});
    stream.respond({ ":status": 204 }, { endStream: true });
    announce();
  });
  const port = await listen(server);
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

const pseudo: readonly Step[] = base.map(([name, value]) => ({ kind: "literal", form: 1, name, value }));

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
const resizes = fc.array(resize, { maxLength: 2 });
const plain = fc.array(fc.oneof(literal, indexed, indexed), { maxLength: 60 });

test("what Node's server decodes is what was measured, whatever happens to the table", async () => {
  const block = fc.tuple(fc.oneof({ weight: 4, arbitrary: fc.constant([]) }, resizes), plain);
  const property = fc.asyncProperty(fc.array(block, { minLength: 1, maxLength: 6 }), fc.nat(9), async (blocks, odd) => {
    const decode = await startDecoder();
    const encoder = new NaiveEncoder();
    const meter = new HpackMeter();
    for (const [sizes, steps] of blocks) {
      const { block: bytes, fields } = encoder.encode([...sizes, ...pseudo, ...steps]);
      if (bytes.length > 16_384) return;
      // The decoder is asked too, because the encoder could share a mistake with the meter.
      expect(await decode(bytes)).toEqual(fields);
      expect(measure(meter, bytes, odd + 1)).toEqual({ bytes: sizeOf(fields), fields: fields.length });
    }
  });
  await fc.assert(property, cases);
});

test.each<[claim: string, block: Buffer]>([
  ["an index of 0", Buffer.of(0x80)],
  ["an index beyond the tables", integer(62, 7, 0x80)],
  ["a name beyond the tables", Buffer.concat([integer(62, 6, 0x40), text("x")])],
  ["a table larger than was offered", integer(4097, 5, 0x20)],
  ["a length that no text may have", integer(70_000, 7, 0)],
  ["an integer without end", Buffer.concat([Buffer.of(0xff), Buffer.alloc(5, 0x80)])],
])("%s is not HPACK", (_, block) => {
  const meter = new HpackMeter();
  meter.begin();
  const bytes = block[0] === 0x7f ? Buffer.concat([Buffer.of(0), block]) : block;
  expect(meter.read(bytes, 0, bytes.length)).toBe(false);
});

test("a reference to a long entry counts as much as the entry", () => {
  const meter = new HpackMeter();
  const entry = Buffer.concat([Buffer.of(0x40), text("x"), text("\0".repeat(4_000))]);
  expect(measure(meter, entry)).toEqual({ bytes: 4_033, fields: 1 });
  expect(measure(meter, Buffer.alloc(100, 0x80 + 62))).toEqual({ bytes: 100 * 4_033, fields: 100 });
});
