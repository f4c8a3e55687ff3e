// The meter is compared with what it must agree with, which is nghttp2: what Node's client encodes, and what Node's
// server decodes.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { HpackMeter } from "../../src/core/hpack-meter.ts";
import { useCleanup } from "../support/cleanup.ts";
import {
  base,
  type Field,
  NaiveEncoder,
  plain,
  pseudo,
  resizes,
  sizeOf,
  startDecoder,
  startEncoder,
} from "../support/hpack-peers.ts";
import { integer, text } from "../support/http2-frames.ts";

const cleanup = useCleanup();
const cases = { numRuns: 60 };

/** In pieces of every size, because frames come as the network cuts them. */
function measure(meter: HpackMeter, block: Buffer, pieceBytes = block.length): { bytes: number; fields: number } {
  meter.begin();
  for (let at = 0; at < block.length; at += pieceBytes) {
    if (!meter.read(block, at, Math.min(block.length, at + pieceBytes))) throw new Error("not HPACK");
  }
  return { bytes: meter.decodedBytes, fields: meter.fields };
}

describe("what Node's client encodes", () => {
  test.each([4096, 300, 0])("measures as it was, with a table of %d bytes", async (tableBytes) => {
    const { encode } = await startEncoder(cleanup, tableBytes);
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
    const { encode } = await startEncoder(cleanup, 4096);
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

test("what Node's server decodes is what was measured, whatever happens to the table", async () => {
  const block = fc.tuple(fc.oneof({ weight: 4, arbitrary: fc.constant([]) }, resizes), plain);
  const property = fc.asyncProperty(fc.array(block, { minLength: 1, maxLength: 6 }), fc.nat(9), async (blocks, odd) => {
    const decode = await startDecoder(cleanup);
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
