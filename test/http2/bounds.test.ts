// What a client may cost, on both sides of each bound.
import { describe, expect, test, vi } from "vitest";
import { encodeFields } from "../../src/http2/hpack.ts";
import { code, endHeaders, endStream, frame, frameTypes, literals } from "../support/http2-frames.ts";
import { begin, Conversation, data, open, requestFields, settings, stepsInTurn, whole } from "./conversation.ts";

const ok = encodeFields([":status", "200"]);
const unknown = 0x42;
const reset = (stream: number): Buffer => frame(frameTypes.rstStream, 0, stream, code(8));
const windowUpdate = (stream: number): Buffer => frame(frameTypes.windowUpdate, 0, stream, code(1));

function start(...more: Buffer[]): Conversation {
  const conversation = new Conversation().send(begin);
  for (const one of more) conversation.send(one);
  return conversation;
}

/** How many of the frames are read before the connection ends, at most `max`. */
function readBefore(conversation: Conversation, frameOf: (i: number) => Buffer, max: number): number {
  for (let i = 0; i < max; i += 1) if (conversation.send(frameOf(i)).session.isOver) return i;
  return max;
}

describe("frames that carry nothing", () => {
  test.each<[claim: string, one: Buffer, from: number, to: number]>([
    // An answer to a PING or to SETTINGS gives a little back.
    ["PING", frame(frameTypes.ping, 0, 0, Buffer.alloc(8)), 2_900, 3_300],
    ["acknowledgements of PING", frame(frameTypes.ping, 1, 0, Buffer.alloc(8)), 2_900, 3_100],
    ["SETTINGS", settings(), 290, 310],
    ["PRIORITY", frame(frameTypes.priority, 0, 3, Buffer.alloc(5, 1)), 2_900, 3_100],
    ["WINDOW_UPDATE of the connection", windowUpdate(0), 2_900, 3_100],
    ["WINDOW_UPDATE of a stream", windowUpdate(1), 2_900, 3_100],
    ["unknown types", frame(unknown, 0, 0, Buffer.alloc(200)), 2_900, 3_100],
    ["DATA of no bytes", data(1, 0), 2_900, 3_100],
    ["DATA of one byte", data(1, 1), 2_900, 3_100],
    [
      "DATA of one byte and padding",
      frame(frameTypes.data, 8, 1, Buffer.concat([Buffer.of(200), Buffer.alloc(201)])),
      2_900,
      3_700,
    ],
  ])("a flood of %s ends the connection, a few thousand do not", (_, one, from, to) => {
    const conversation = start(open(1));
    const count = readBefore(conversation, () => one, 5_000);
    expect(count).toBeGreaterThan(from);
    expect(count).toBeLessThan(to);
    expect(conversation.outcome).toBe("connection enhanceYourCalm");
    expect(conversation.events.at(-1)).toBe("over enhanceYourCalm");
  });

  test("CONTINUATION without bytes ends the connection", () => {
    const conversation = start(frame(frameTypes.headers, 0, 1, literals(requestFields())));
    expect(readBefore(conversation, () => frame(frameTypes.continuation, 0, 1), 5_000)).toBeLessThan(3_100);
  });

  test("a flood of requests that are refused as too many ends the connection, too", () => {
    const conversation = start();
    let refused = 0;
    for (let stream = 1; stream < 8_000 && !conversation.session.isOver; stream += 2) {
      conversation.send(whole(stream));
      for (const open of [...conversation.session.streams.values()]) conversation.session.refuse(open);
      refused += 1;
    }
    expect(refused).toBeGreaterThan(2_900);
    expect(refused).toBeLessThan(3_300);
    expect(conversation.events.at(-1)).toBe("over enhanceYourCalm");
  });

  test("time gives the frames back", () => {
    const conversation = start(open(1));
    const { clock } = conversation;
    const count = readBefore(
      conversation,
      () => {
        clock.advance(10);
        return windowUpdate(1);
      },
      10_000,
    );
    expect(count).toBe(10_000);
  });

  test("bodies and requests pay for theirs", () => {
    const conversation = start(open(1));
    expect(readBefore(conversation, () => data(1, 64), 4_000)).toBe(4_000);
    const calls = readBefore(
      start(),
      (i) => Buffer.concat([windowUpdate(0), open(2 * i + 1, "/answer"), reset(2 * i + 1), windowUpdate(0)]),
      2_500,
    );
    expect(calls).toBe(2_500);
  });
});

describe("resets", () => {
  test("200 requests may be reset at once, 20 in a second, and then the connection ends", () => {
    const attack = (i: number): Buffer => Buffer.concat([whole(2 * i + 1), reset(2 * i + 1)]);
    const conversation = start();
    expect(readBefore(conversation, attack, 1_000)).toBe(200);
    expect(conversation.outcome).toBe("connection enhanceYourCalm");
    const slow = start();
    const reading = (i: number): Buffer => {
      slow.clock.advance(50);
      return attack(i);
    };
    expect(readBefore(slow, reading, 2_000)).toBe(2_000);
  });

  test.each<[claim: string, provoke: (stream: number) => Buffer]>([
    ["a window that overflows", (id) => frame(frameTypes.windowUpdate, 0, id, code(2 ** 31 - 1))],
    ["a WINDOW_UPDATE of 0", (id) => frame(frameTypes.windowUpdate, 0, id, code(0))],
    ["PRIORITY of a wrong size", (id) => frame(frameTypes.priority, 0, id, Buffer.alloc(4))],
    ["DATA behind the end", (id) => data(id, 1)],
    ["trailers behind the end", (id) => frame(frameTypes.headers, endHeaders | endStream, id, literals([["x", "y"]]))],
  ])("those that the client provokes by %s count, too (MadeYouReset)", (_, provoke) => {
    const attack = (i: number): Buffer => Buffer.concat([whole(2 * i + 1), provoke(2 * i + 1)]);
    expect(readBefore(start(), attack, 1_000)).toBe(200);
  });

  const post = (id: number): Buffer =>
    frame(frameTypes.headers, endHeaders, id, literals([...requestFields(), ["content-length", "2"]]));
  const trailers = (id: number, flags: number, name: string): Buffer =>
    frame(frameTypes.headers, flags, id, literals([[name, "y"]]));

  test.each<[claim: string, provoke: (stream: number) => Buffer]>([
    ["is longer than its length", (id) => data(id, 3)],
    ["ends before its length", (id) => frame(frameTypes.data, endStream, id, "x")],
    ["has trailers before its length", (id) => trailers(id, endHeaders | endStream, "x")],
    ["has trailers that do not end it", (id) => trailers(id, endHeaders, "x")],
    ["has a pseudo-header among its trailers", (id) => trailers(id, endHeaders | endStream, ":path")],
  ])("so do those by a body that %s", (_, provoke) => {
    const attack = (i: number): Buffer => Buffer.concat([post(2 * i + 1), provoke(2 * i + 1)]);
    expect(readBefore(start(), attack, 1_000)).toBe(200);
  });

  test("a stream that depends on itself is not reset: priorities are not read", () => {
    const conversation = start(open(1), frame(frameTypes.priority, 0, 1, Buffer.concat([code(1), Buffer.of(16)])));
    expect([conversation.session.streams.size, conversation.session.isOver]).toEqual([1, false]);
  });

  test("malformed requests count, too", () => {
    const malformed = (i: number): Buffer =>
      frame(frameTypes.headers, endHeaders | 1, 2 * i + 1, literals([["X", "y"]]));
    expect(readBefore(start(), malformed, 1_000)).toBe(200);
  });

  test("each response that is sent whole makes up for one", () => {
    const mixed = (i: number): Buffer =>
      Buffer.concat([whole(4 * i + 1, "/answer"), whole(4 * i + 3), reset(4 * i + 3)]);
    expect(readBefore(start(), mixed, 2_000)).toBe(2_000);
  });
});

describe("heads", () => {
  const entry = Buffer.concat([Buffer.of(0x40, 1, 0x78, 0x7f, 0xa1, 0x1e), Buffer.alloc(4_000, "v")]);

  test("a head that decodes to megabytes is not decoded, and ends the connection", () => {
    const bomb = Buffer.concat([literals(requestFields()), entry, Buffer.alloc(8_000, 0x80 + 62)]);
    const conversation = start(frame(frameTypes.headers, endHeaders | endStream, 1, bomb));
    expect(conversation.outcome).toBe("connection enhanceYourCalm");
    expect(conversation.events).toEqual(["over enhanceYourCalm"]);
  });

  test("a head that never ends is given up by its bytes", () => {
    const conversation = start(frame(frameTypes.headers, 0, 1, literals([["x", "y".repeat(16_000)]])));
    const more = frame(frameTypes.continuation, 0, 1, Buffer.alloc(8_000, 0x82));
    expect(readBefore(conversation, () => more, 100)).toBe(2);
    expect(conversation.outcome).toBe("connection enhanceYourCalm");
  });
});

test("a head that would become too large is given up before the rest of it has come", () => {
  const conversation = start(frame(frameTypes.headers, 0, 1, Buffer.alloc(16_384, 0x82)));
  conversation.send(frame(frameTypes.continuation, 0, 1, Buffer.alloc(16_000, 0x82)));
  expect(conversation.outcome).toBe("none");
  conversation.send(frame(frameTypes.continuation, 0, 1, Buffer.alloc(16_384, 0x82)).subarray(0, 9));
  expect(conversation.outcome).toBe("connection enhanceYourCalm");
});

test("a head in many pieces takes at most a quarter more memory than its bytes", () => {
  const conversation = start(frame(frameTypes.headers, 0, 1, Buffer.alloc(100, 0x82)));
  const allocations = vi.spyOn(Buffer, "allocUnsafeSlow");
  for (let i = 0; i < 299; i += 1) conversation.send(frame(frameTypes.continuation, 0, 1, Buffer.alloc(100, 0x82)));
  const bytes = Math.max(...allocations.mock.calls.map(([length]) => length));
  allocations.mockRestore();
  expect(bytes).toBeGreaterThanOrEqual(30_000);
  expect(bytes).toBeLessThanOrEqual(37_500);
});

describe("a turn of the event loop", () => {
  test("serves 32 requests, or 128 frames of a body, and goes on in the next", () => {
    const inOneTurn = (bytes: Buffer): number => {
      const { session, turn } = start(open(1));
      turn.stepsLeft = stepsInTurn;
      session.feed(bytes);
      let events = 0;
      while (session.next() !== null) events += 1;
      return events;
    };
    const requests = Buffer.concat(Array.from({ length: 90 }, (_, i) => whole(2 * i + 3)));
    expect(inOneTurn(requests)).toBeLessThanOrEqual(32);
    expect(inOneTurn(requests)).toBeGreaterThan(25);
    // Of the last one only the head is read.
    expect(inOneTurn(Buffer.concat(Array(300).fill(data(1, 1))))).toBe(127);
  });

  test("reads no more than a thousand frames that carry nothing", () => {
    const { session, turn } = start();
    const frames = Buffer.concat(Array(2_000).fill(frame(unknown, 0, 0)));
    turn.stepsLeft = stepsInTurn;
    session.feed(frames);
    session.next();
    expect(session.takeUnread().length).toBe(9 * (2_000 - 1_024));
  });
});

describe("responses that nobody reads", () => {
  const stalled = (): Conversation => {
    const conversation = start(settings([4, 0]), whole(1), whole(3));
    for (const stream of conversation.streams.values()) {
      conversation.session.respond(stream, ok, false);
      conversation.session.write(stream, "waits");
    }
    conversation.session.end(conversation.stream(1));
    return conversation;
  };

  test("are given up after five checks without progress, and only those that are complete", () => {
    const { session } = stalled();
    const resets = Array.from({ length: 7 }, () => session.resetUnread(false));
    expect(resets).toEqual([0, 0, 0, 0, 0, 1, 0]);
    expect([...session.streams.keys()]).toEqual([3]);
  });

  test("are given up after one, while the client has much open", () => {
    const { session } = stalled();
    expect([session.resetUnread(true), session.resetUnread(true)]).toEqual([0, 1]);
  });

  test("are kept while the client takes a little of them", () => {
    const conversation = stalled();
    for (let i = 0; i < 4; i += 1) {
      for (let j = 0; j < 4; j += 1) expect(conversation.session.resetUnread(false)).toBe(0);
      conversation.send(frame(frameTypes.windowUpdate, 0, 1, code(1)));
    }
    expect(conversation.session.streams.has(1)).toBe(true);
  });

  test("are kept while the connection takes 4 KiB a second for other streams", () => {
    const conversation = stalled();
    const { session } = conversation;
    conversation.send(whole(5));
    for (let i = 0; i < 20; i += 1) {
      for (let j = 0; j < 900; j += 1) session.respond(conversation.stream(5), ok, false);
      expect(session.resetUnread(false)).toBe(0);
    }
  });
});
