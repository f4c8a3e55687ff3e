// What the guard passes on, frame by frame and cut in every way, and where it stops a client.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FrameBudgets } from "../../src/core/frame-budget.ts";
import { FrameGuard } from "../../src/exchange/http2-frame-guard.ts";
import { FakeClock } from "../support/clock.ts";
import { endHeaders, FrameReader, frame, frameTypes, get, integer, literals, text } from "../support/http2-frames.ts";

const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
const unknown = 0x42;

function start() {
  const passed: Buffer[] = [];
  const clock = new FakeClock();
  const guard = new FrameGuard(new FrameBudgets(clock.monotonicMs).open(null), (bytes) => void passed.push(bytes));
  /** Reads on for as many turns as it takes. Returns their number. */
  const read = (bytes: Buffer): number => {
    let turns = 0;
    for (let at = 0; at < bytes.length && guard.stopped === null; turns += 1) at = guard.read(bytes, at);
    return turns;
  };
  read(preface);
  passed.length = 0;
  return { guard, clock, passed, read };
}

const headers = (block: Buffer, stream = 1): Buffer => frame(frameTypes.headers, endHeaders | 1, stream, block);
const data = (bytes: number, stream = 1): Buffer => frame(frameTypes.data, 0, stream, Buffer.alloc(bytes));

describe("passes on", () => {
  test("every frame of a known type as it came, however it is cut, and none of an unknown type", () => {
    const types = fc.constantFrom(
      ...Object.values(frameTypes).filter((type) => type < frameTypes.continuation),
      unknown,
    );
    const payload = fc.oneof(fc.nat({ max: 30 }), fc.nat({ max: 5_000 }));
    const one = fc.tuple(types, payload, fc.nat({ max: 9 }));
    const property = fc.property(fc.array(one, { maxLength: 40 }), fc.array(fc.nat({ max: 3_000 })), (specs, cuts) => {
      const frames = specs.map(([type, bytes, stream]) => {
        const isBlock = type === frameTypes.headers;
        return frame(type, isBlock ? endHeaders : 0, stream, isBlock ? literals(get()) : Buffer.alloc(bytes, 7));
      });
      const { guard, passed, read } = start();
      let rest = Buffer.concat(frames);
      for (const cut of cuts) {
        read(rest.subarray(0, cut));
        rest = rest.subarray(cut);
      }
      read(rest);
      expect(guard.stopped).toBe(null);
      const known = frames.filter((_, i) => specs[i]?.[0] !== unknown);
      expect(Buffer.concat(passed).equals(Buffer.concat(known))).toBe(true);
    });
    fc.assert(property, { numRuns: 200 });
  });

  test("a PING and not its ACK, unless that is malformed", () => {
    const { passed, read } = start();
    const eight = Buffer.alloc(8);
    const [ping, malformed] = [frame(frameTypes.ping, 0, 0, eight), frame(frameTypes.ping, 1, 0, Buffer.alloc(7))];
    read(Buffer.concat([frame(frameTypes.ping, 1, 0, eight), ping, frame(frameTypes.ping, 1, 0, eight), malformed]));
    expect(Buffer.concat(passed)).toEqual(Buffer.concat([ping, malformed]));
  });

  test("a read in the buffer in which it came, without a copy", () => {
    const { passed, read } = start();
    const bytes = Buffer.concat([headers(literals(get())), data(10_000)].slice(0, 1));
    read(bytes);
    expect(passed).toEqual([bytes]);
    expect(passed[0]).toBe(bytes);
  });

  test("DATA of a byte never together with more than 2 KiB that is no DATA", () => {
    const { passed, read } = start();
    const large = frame(frameTypes.headers, endHeaders, 1, literals(get("/v2/x", ["x", "y".repeat(10_000)])));
    read(Buffer.concat([data(1), large, data(1), large, data(1), frame(frameTypes.ping, 0, 0, Buffer.alloc(8))]));
    const mixed = passed.filter((bytes) => {
      const types = new FrameReader().read(bytes).map(({ type }) => type === frameTypes.data);
      return types.includes(true) && types.includes(false);
    });
    expect(Math.max(0, ...mixed.map(({ length }) => length))).toBeLessThan(2_100);
  });

  test("an unknown frame within a header block, which nghttp2 has to refuse", () => {
    const { passed, read } = start();
    const bytes = Buffer.concat([frame(frameTypes.headers, 0, 1, literals(get())), frame(unknown, 0, 1, "x")]);
    read(bytes);
    expect(Buffer.concat(passed)).toEqual(bytes);
  });
});

describe("stops", () => {
  const long = (bytes: number): Buffer => Buffer.concat([Buffer.of(0x40), text("x"), text("\0".repeat(bytes))]);
  const references = (count: number): Buffer => Buffer.alloc(count, integer(62, 7, 0x80));

  test.each<[claim: string, block: Buffer, stopped: string | null]>([
    ["eight references to a long entry", Buffer.concat([long(4_000), references(7)]), null],
    ["nine references to a long entry", Buffer.concat([long(4_000), references(8)]), "head_too_large"],
    ["400 fields", Buffer.alloc(400, 0x82), null],
    ["401 fields", Buffer.alloc(401, 0x82), "head_too_large"],
    ["a value of 32,700 bytes, half of it in another frame", long(32_700), null],
    ["a value of 32,800 bytes", long(32_800), "head_too_large"],
    ["a value of 70,000 bytes", long(70_000), "head_too_large"],
    ["updates of the table's size without end", Buffer.alloc(32_769, 0x20), "head_too_large"],
    ["an index that does not exist", Buffer.of(0xff, 0x00), "malformed"],
  ])("%s: %s", (_, block, stopped) => {
    for (const padded of [0, 8]) {
      const { guard, passed, read } = start();
      const [first, rest] = [block.subarray(0, 16_000), block.subarray(16_000)];
      const pad = padded === 0 ? Buffer.alloc(0) : Buffer.alloc(100, 0x82);
      const head = padded === 0 ? Buffer.alloc(0) : Buffer.of(100, 0, 0, 0, 1, 5);
      const isWhole = rest.length === 0;
      const flags = (padded === 0 ? 0 : 0x28) | (isWhole ? endHeaders : 0);
      read(frame(frameTypes.headers, flags, 1, Buffer.concat([head, first, pad])));
      for (let at = 0; at < rest.length; at += 16_000) {
        const isLast = at + 16_000 >= rest.length;
        read(frame(frameTypes.continuation, isLast ? endHeaders : 0, 1, rest.subarray(at, at + 16_000)));
      }
      expect(guard.stopped).toBe(stopped);
      if (stopped !== null) expect(Buffer.concat(passed).length).toBeLessThan(33_000);
    }
  });

  test.each<[claim: string, one: Buffer]>([
    ["PING", frame(frameTypes.ping, 0, 0, Buffer.alloc(8))],
    ["PRIORITY", frame(frameTypes.priority, 0, 1, Buffer.alloc(5))],
    ["RST_STREAM", frame(frameTypes.rstStream, 0, 1, Buffer.alloc(4))],
    ["WINDOW_UPDATE", frame(frameTypes.windowUpdate, 0, 0, Buffer.of(0, 0, 0, 1))],
    ["empty DATA", data(0)],
    ["empty CONTINUATION", frame(frameTypes.continuation, 0, 1)],
    ["an unknown type", frame(unknown, 0, 0)],
    ["HEADERS of which no request comes", headers(Buffer.of(0x82))],
  ])("a flood of %s after 3,000 frames, and not before", (_, one) => {
    const { guard, read } = start();
    for (let i = 0; i < 3_000; i += 1) read(one);
    expect(guard.stopped).toBe(null);
    read(one);
    expect(guard.stopped).toBe("frames");
  });

  test("no flood that bytes or requests pay for", () => {
    const { guard, read } = start();
    for (let i = 0; i < 20_000; i += 1) {
      read(frame(frameTypes.windowUpdate, 0, 0, Buffer.of(0, 0, 0, 1)));
      read(frame(frameTypes.windowUpdate, 0, 1, Buffer.of(0, 0, 0, 1)));
      guard.onSent(512);
    }
    for (let i = 0; i < 5_000; i += 1) read(Buffer.concat([data(32), data(300)]));
    for (let i = 0; i < 5_000; i += 1) {
      read(
        Buffer.concat([
          headers(Buffer.of(0x82)),
          data(0),
          data(20),
          frame(frameTypes.windowUpdate, 0, 0, "\0\0\0\x01"),
        ]),
      );
      guard.onRequest();
    }
    expect(guard.stopped).toBe(null);
  });
});

test("what one read causes is done in turns: 32 requests, or 128 frames of a body, at once", () => {
  const request = headers(Buffer.concat([Buffer.of(0x82), literals([["x", "y"]])]));
  const turns = (one: Buffer, count: number): number => start().read(Buffer.concat(Array(count).fill(one)));
  expect([turns(request, 32), turns(request, 33), turns(request, 100)]).toEqual([1, 2, 4]);
  expect([turns(data(1), 128), turns(data(1), 129)]).toEqual([1, 2]);
});
