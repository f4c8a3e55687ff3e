// The pieces of bodies over HTTP/2: joined within a turn of the event loop, in order, and given back to the windows once.
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { StreamBody, TurnPieces } from "../../src/transport/http2/stream-body.ts";

/** A body, and what its reader was given: `ab`, `c end`. */
function start(turn = new TurnPieces(), onData: (body: StreamBody) => void = () => {}) {
  const read: string[] = [];
  const tally = { usedBytes: 0 };
  const owner = {
    cancel() {
      read.push("cancelled");
    },
    used(bytes: number) {
      tally.usedBytes += bytes;
    },
  };
  const body = new StreamBody(owner, turn, () => 0);
  body.reader = {
    onData(bytes, _, isLast) {
      read.push(bytes.toString("latin1") + (isLast ? " end" : ""));
      onData(body);
    },
    onEnd() {
      read.push("end");
    },
  };
  /** The memory of what is received is overwritten. */
  const receive = (text: string, isEnd = false): void => {
    const bytes = Buffer.from(text, "latin1");
    body.receive(bytes, isEnd);
    bytes.fill("?");
  };
  return { body, read, receive, tally };
}

test("the pieces of a turn are passed on in one", async () => {
  const { body, read, receive, tally } = start();
  body.resume();
  for (const piece of ["a", "b", "c"]) receive(piece);
  expect([read, tally.usedBytes]).toEqual([[], 0]);
  await nextTurn();
  expect([read, tally.usedBytes]).toEqual([["abc"], 3]);
});

test("the end of a body does not wait for the end of the turn", () => {
  const { body, read, receive } = start();
  body.resume();
  receive("a");
  receive("b", true);
  expect(read).toEqual(["ab end"]);
  const empty = start();
  empty.body.resume();
  empty.receive("", true);
  expect(empty.read).toEqual(["end"]);
});

test("64 KiB are not exceeded, and what is left comes with the end", () => {
  const { body, read, receive } = start();
  body.resume();
  for (let i = 0; i < 4; i += 1) receive("x".repeat(16_000));
  receive("y".repeat(16_000), true);
  expect(read.map((each) => each.length)).toEqual([64_000, 16_000 + " end".length]);
});

test("another body passes on what one has", async () => {
  const turn = new TurnPieces();
  const [one, other] = [start(turn), start(turn)];
  for (const { body } of [one, other]) body.resume();
  one.receive("a");
  other.receive("1");
  one.receive("b");
  await nextTurn();
  expect([one.read, other.read]).toEqual([["a", "b"], ["1"]]);
  expect([one.tally.usedBytes, other.tally.usedBytes]).toEqual([2, 1]);
});

test("a pause keeps what the turn has, in order", async () => {
  const { body, read, receive, tally } = start();
  body.resume();
  receive("a");
  body.pause();
  receive("b");
  await nextTurn();
  expect([read, tally.usedBytes]).toEqual([[], 0]);
  body.resume();
  receive("c", true);
  expect([read, tally.usedBytes]).toEqual([["ab", "c end"], 3]);
});

test("a reader that pauses when it is given a piece gets the next one when it resumes", async () => {
  const { body, read, receive } = start(new TurnPieces(), (each) => each.pause());
  body.resume();
  receive("a");
  await nextTurn();
  receive("b", true);
  expect(read).toEqual(["a"]);
  body.resume();
  expect(read).toEqual(["a", "b end"]);
});

test("a reader that pauses because there is no room for a piece gets that piece before the next one", async () => {
  const { body, read, receive, tally } = start(new TurnPieces(), (each) => each.pause());
  body.resume();
  const pieces = ["a".repeat(60_000), "b".repeat(16_384), "c".repeat(16_384)];
  for (const piece of pieces) receive(piece);
  await nextTurn();
  body.resume();
  expect(runsOf(read)).toEqual(["a60000", "b16384 c16384"]);
  expect(tally.usedBytes).toBe(pieces.join("").length);
});

test("a body that is paused while another one passes on what it has keeps its pieces in order", async () => {
  const turn = new TurnPieces();
  const paused = start(turn);
  const other = start(turn, () => paused.body.pause());
  for (const { body } of [paused, other]) body.resume();
  other.receive("1");
  paused.receive("a");
  paused.receive("b");
  await nextTurn();
  expect([paused.read, paused.tally.usedBytes]).toEqual([[], 0]);
  paused.body.resume();
  expect([paused.read, paused.tally.usedBytes]).toEqual([["ab"], 2]);
});

test("a body that is destroyed while it makes room gives back all that it received", async () => {
  const { body, read, receive, tally } = start(new TurnPieces(), (each) => each.destroy());
  body.resume();
  receive("a".repeat(60_000));
  receive("b".repeat(16_384));
  receive("c".repeat(16_384), true);
  await nextTurn();
  expect([runsOf(read), tally.usedBytes]).toEqual([["a60000"], 92_768]);
});

test("what a body has when it is destroyed is given back, and not passed on", async () => {
  const { body, read, receive, tally } = start();
  body.resume();
  receive("a");
  body.destroy();
  receive("b", true);
  await nextTurn();
  expect([read, tally.usedBytes]).toEqual([[], 2]);
});

test("what nobody has read of a body when it is destroyed is given back", () => {
  const { body, read, receive, tally } = start();
  receive("ab");
  expect(tally.usedBytes).toBe(0);
  body.destroy();
  expect([read, tally.usedBytes]).toEqual([[], 2]);
});

/** `a2 b1` of `aab`. */
function runsOf(read: readonly string[]): string[] {
  return read.map((each) => each.replaceAll(/(.)\1*/g, (run) => `${run[0]}${run.length} `).trim());
}
