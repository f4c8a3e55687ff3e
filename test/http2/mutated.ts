// Conversations of a client with a few things wrong: bytes changed, frames left out, repeated and exchanged, their types, flags,
// streams and lengths made others. Each is read several times, cut in other places, and must become the same; behind it, the
// session's dynamic table must be the one that the blocks in those bytes make.
import { expect } from "vitest";
import { announcedBytes, isRequest } from "../../src/http2/field-rules.ts";
import { HpackDecoder } from "../../src/http2/hpack.ts";
import { maxStreamId, maxWindowBytes } from "../../src/http2/protocol.ts";
import {
  code,
  endHeaders,
  endStream,
  FrameReader,
  frame,
  frameTypes,
  integer,
  literals,
  text,
} from "../support/http2-frames.ts";
import { seededRandom } from "../support/random.ts";
import { begin, Conversation, data, open, preface, requestFields, settings, whole } from "./conversation.ts";

type Below = (max: number) => number;

const head = literals(requestFields("/answer", "GET"));

/** Fields that add to the dynamic table, refer to it or change its size, mostly as they may. */
function tableFields(below: Below): Buffer {
  const update = below(4) === 0 ? integer(below(below(3) === 0 ? 200 : 4_098), 5, 0x20) : Buffer.alloc(0);
  const newest = below(30) === 0 ? 65 : 62;
  const fields = Array.from({ length: 1 + below(4) }, (_, i) => {
    const value = text("v".repeat(below(below(9) === 0 ? 3_000 : 30)));
    switch (i === 0 ? 2 : below(4)) {
      case 0:
        return Buffer.concat([integer(newest, 6, 0x40), value]);
      case 1:
        return integer(newest + below(i), 7, 0x80);
      default:
        return Buffer.concat([Buffer.of(0x40), text(`x${below(9)}`), value]);
    }
  });
  return Buffer.concat([update, head, ...fields]);
}

const addsField = Buffer.concat([head, Buffer.of(0x40), text("x"), text("y")]);

/** Makes a frame as clients send it, mostly. */
const frames: readonly ((stream: number, below: Below) => Buffer)[] = [
  (stream) => open(stream),
  (stream) => open(stream, "/answer", [["content-length", "5"]]),
  (stream) => whole(stream, "/answer"),
  (stream) => whole(stream),
  (stream, below) => frame(frameTypes.headers, endHeaders | below(2), stream, tableFields(below)),
  (stream) => frame(frameTypes.headers, endHeaders | endStream, stream, addsField),
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

/** How many of the first frames open a stream, or are taken on any: half of the conversations have no others, or few. */
const kindFrames = 9;

function conversationOf(below: Below): Buffer {
  let stream = 1;
  const isKind = below(2) === 0;
  const parts = Array.from({ length: 3 + below(14) }, () => {
    if (isKind || below(3) === 0) stream += 2;
    const make = frames[below(isKind && below(20) > 0 ? kindFrames : frames.length)] as (typeof frames)[number];
    const bytes = make(isKind ? stream : Math.max(1, stream - 2 * below(3)), below);
    return isKind && below(6) > 0 ? bytes : mutateFrame(bytes, below);
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

/** Probes have higher numbers. */
const highestStream = maxStreamId - 2 * 130;

/** Returns the header blocks of the frames; null if the bytes end within a frame or a block, or leave no stream for probes. */
function blocksOf(bytes: Buffer): Buffer[] | null {
  const blocks: Buffer[] = [];
  const frames = new FrameReader().read(bytes);
  let block: Buffer | null = null;
  for (const { type, flags, stream, payload } of frames) {
    if (stream >= highestStream) return null;
    if (type === frameTypes.headers) {
      const padding = (flags & 8) === 0 ? 0 : 1 + (payload[0] ?? 0);
      const from = Math.min(1, padding) + ((flags & 0x20) === 0 ? 0 : 5);
      block = payload.subarray(from, payload.length - Math.max(0, padding - 1));
    } else if (type === frameTypes.continuation && block !== null) block = Buffer.concat([block, payload]);
    else continue;
    if ((flags & endHeaders) !== 0) blocks.push(block);
    if ((flags & endHeaders) !== 0) block = null;
  }
  const frameBytes = frames.reduce((sum, { payload }) => sum + 9 + payload.length, 0);
  return block === null && frameBytes === bytes.length ? blocks : null;
}

/**
 * Refers to each entry of the session's dynamic table, behind a conversation that has not ended. Returns false if that cannot
 * be done.
 */
function expectTableInStep(bytes: Buffer): boolean {
  const conversation = new Conversation(4).send(bytes);
  const { session } = conversation;
  const blocks = blocksOf(bytes.subarray(preface.length));
  const isOpen = (): boolean => !session.isOver && !session.isEnding;
  if (!isOpen() || blocks === null) return false;
  const model = new HpackDecoder();
  const resetAll = (): void => {
    for (const stream of [...session.streams.values()]) session.reset(stream, 8);
  };
  resetAll();
  for (const block of blocks) expect(model.decode(block, 0, block.length)).toBeInstanceOf(Array);
  for (let id = highestStream, index = 62; ; id += 2, index += 1) {
    const block = Buffer.concat([head, integer(index, 7, 0x80)]);
    const expected = model.decode(block, 0, block.length);
    conversation.send(frame(frameTypes.headers, endHeaders, id, block));
    resetAll();
    if (expected === "malformed") {
      expect(conversation.events.at(-1)).toBe("over compression");
      return true;
    }
    // An entry may be one that no request may have.
    if (Array.isArray(expected) && isRequest(expected) && announcedBytes(expected) !== undefined) {
      expect(conversation.fields.at(-1)?.join("\n")).toBe(expected.join("\n"));
    }
  }
}

type Count = "connection" | "stream" | "none" | "inStep";

/** Returns how many ended with an error of the connection, of a stream, and without one, and how many tables were compared. */
export function readMutated(count: number, seed: number): Record<Count, number> {
  const random = seededRandom(seed);
  const below: Below = (max) => Math.floor(random() * max);
  const ended = { connection: 0, stream: 0, none: 0, inStep: 0 };
  for (let i = 0; i < count; i += 1) {
    const bytes = conversationOf(below);
    const uncut = outcomeOf(bytes, null);
    const about = `seed ${seed}, conversation ${i}: ${bytes.toString("hex")}`;
    for (let cuts = 0; cuts < 2; cuts += 1) expect(outcomeOf(bytes, below), about).toEqual(uncut);
    const outcome = new Conversation(4).send(bytes).outcome.split(" ")[0];
    ended[outcome as keyof typeof ended] += 1;
    if (expectTableInStep(bytes)) ended.inStep += 1;
  }
  return ended;
}
