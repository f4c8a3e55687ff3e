// Conversations of a client with a few things wrong: bytes changed, frames left out, repeated and exchanged, their types, flags,
// streams and lengths made others. Each is read several times, cut in other places, and must become the same.
import { expect } from "vitest";
import { maxWindowBytes } from "../../src/http2/protocol.ts";
import { code, endHeaders, endStream, frame, frameTypes, integer, literals, text } from "../support/http2-frames.ts";
import { seededRandom } from "../support/random.ts";
import { begin, Conversation, data, open, requestFields, settings, whole } from "./conversation.ts";

type Below = (max: number) => number;

const indexed = Buffer.concat([literals(requestFields("/answer", "GET")), Buffer.of(0x40), text("x"), text("y")]);

/** Makes a frame as clients send it, mostly. */
const frames: readonly ((stream: number, below: Below) => Buffer)[] = [
  (stream) => open(stream),
  (stream) => open(stream, "/answer", [["content-length", "5"]]),
  (stream) => whole(stream, "/answer"),
  (stream) => whole(stream),
  (stream) => frame(frameTypes.headers, endHeaders | endStream, stream, indexed),
  (stream, below) =>
    frame(frameTypes.headers, 5, stream, Buffer.concat([literals(requestFields()), integer(62 + below(3), 7, 0x80)])),
  (stream, below) => {
    const block = literals(requestFields("/x"));
    const at = below(block.length);
    const first = frame(frameTypes.headers, below(2), stream, block.subarray(0, at));
    return Buffer.concat([first, frame(frameTypes.continuation, endHeaders, stream, block.subarray(at))]);
  },
  (stream) => frame(frameTypes.headers, 5, stream, literals([["x", "trailer"]])),
  (stream, below) => data(stream, below(400), below(2)),
  (stream, below) => frame(frameTypes.data, 8 + below(2), stream, Buffer.alloc(1 + below(300), below(9))),
  (stream, below) => frame(frameTypes.windowUpdate, 0, below(2) * stream, code(1 + below(70_000))),
  (stream) => frame(frameTypes.rstStream, 0, stream, code(8)),
  (stream) => frame(frameTypes.priority, 0, stream, Buffer.alloc(5)),
  (_, below) => settings([4, below(100_000)], [1, below(5_000)]),
  () => frame(frameTypes.settings, 1, 0),
  (_, below) => frame(frameTypes.ping, below(2), 0, Buffer.alloc(8, below(256))),
  (_, below) => frame(below(256), below(256), below(9), Buffer.alloc(below(40))),
  (_, below) => frame(frameTypes.goaway, 0, 0, Buffer.alloc(8 + below(9))),
];

function conversationOf(below: Below): Buffer {
  let stream = 1;
  const parts = Array.from({ length: 3 + below(14) }, () => {
    if (below(3) === 0) stream += 2;
    const make = frames[below(frames.length)] as (typeof frames)[number];
    return mutateFrame(make(Math.max(1, stream - 2 * below(3)), below), below);
  });
  const bytes = Buffer.concat([begin, ...parts]);
  if (below(4) === 0) bytes[below(bytes.length)] = below(256);
  return bytes;
}

function mutateFrame(bytes: Buffer, below: Below): Buffer {
  switch (below(24)) {
    case 0:
      return Buffer.alloc(0);
    case 1:
      return Buffer.concat([bytes, bytes]);
    case 2:
    case 3:
      bytes[below(Math.min(9, bytes.length))] = below(256);
      return bytes;
    case 4:
      bytes[below(bytes.length)] = below(256);
      return bytes;
    case 5:
      bytes[4] = (bytes[4] as number) ^ (1 << below(6));
      return bytes;
    default:
      return bytes;
  }
}

/** What a conversation became: what was told of requests, and what the client was sent, but for WINDOW_UPDATE. */
function outcomeOf(bytes: Buffer, below: Below | null): { events: readonly string[]; sent: readonly string[] } {
  const conversation = new Conversation(4);
  for (let at = 0; at < bytes.length; ) {
    const size = below === null ? bytes.length : 1 + below(below(3) === 0 ? 9 : 200);
    conversation.sendPiece(bytes.subarray(at, at + size));
    at += size;
  }
  const { session, events, sent } = conversation;
  const { streams } = session;
  expect(streams.size).toBeLessThanOrEqual(4);
  for (const { sendWindow, receiveWindow } of streams.values()) {
    expect(Math.max(sendWindow, receiveWindow)).toBeLessThanOrEqual(maxWindowBytes);
  }
  const opened = [...conversation.streams.keys()];
  const left = [...streams.keys()];
  const closed = session.takeClosed().map(({ id }) => id);
  expect([...closed, ...left].sort(), "each request is open, or told as closed once").toEqual(opened.sort());
  session.close();
  expect(session.takeClosed().map(({ id }) => id)).toEqual(left);
  // Pieces of a body are given back to the windows as they come.
  return { events, sent: sent.filter((one) => !one.startsWith("windowUpdate")) };
}

/** Returns how many ended with an error of the connection, of a stream, and without one. */
export function readMutated(count: number, seed: number): Record<"connection" | "stream" | "none", number> {
  const random = seededRandom(seed);
  const below: Below = (max) => Math.floor(random() * max);
  const ended = { connection: 0, stream: 0, none: 0 };
  for (let i = 0; i < count; i += 1) {
    const bytes = conversationOf(below);
    const uncut = outcomeOf(bytes, null);
    const about = `seed ${seed}, conversation ${i}: ${bytes.toString("hex")}`;
    for (let cuts = 0; cuts < 2; cuts += 1) expect(outcomeOf(bytes, below), about).toEqual(uncut);
    const outcome = new Conversation(4).send(bytes).outcome.split(" ")[0];
    ended[outcome as keyof typeof ended] += 1;
  }
  return ended;
}
