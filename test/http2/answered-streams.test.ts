// A stream that is answered while its client still sends: when the client is told to stop, and what it may send until then.
import { expect, test } from "vitest";
import { lingerSilenceMs } from "../../src/core/http-bounds.ts";
import { checkAnsweredMs } from "../../src/http2/answered-streams.ts";
import { code, endStream, frame, frameTypes } from "../support/http2-frames.ts";
import { begin, Conversation, data, open, whole } from "./conversation.ts";

const windowBytes = 65_535;
const lingerMs = 30_000;
const none = frame(frameTypes.headers, 5, 1, Buffer.alloc(0));
const reset = frame(frameTypes.rstStream, 0, 1, code(8));

/** Stream 1 is answered, and its request is not whole. `isRead`: the client acknowledges what was sent behind the answer. */
function answered(ms = lingerMs, maxStreams = 100, isRead = true): Conversation {
  const conversation = new Conversation(maxStreams, { lingerMs: ms }).send(begin).send(open(1, "/answer"));
  expect(conversation.sent.slice(-2)).toEqual(["headers 1 end", "ping 0"]);
  const ping = conversation.frames.at(-1)?.payload ?? "";
  if (isRead) conversation.send(frame(frameTypes.ping, 1, 0, ping));
  expect(conversation.sent.filter((sent) => sent.includes("rstStream"))).toEqual([]);
  return conversation;
}

const resets = ({ frames }: Conversation): number[] =>
  frames.filter(({ type }) => type === frameTypes.rstStream).map(({ stream }) => stream);

/** Returns how many checks it takes until stream 1 is reset; null: more than `most`. */
function checksUntilReset(
  conversation: Conversation,
  options: { isInHurry?: boolean; most?: number; before?: (check: number) => void } = {},
): number | null {
  const { isInHurry = false, most = 1_000, before } = options;
  for (let check = 1; check <= most; check += 1) {
    before?.(check);
    conversation.session.resetAnswered(isInHurry);
    conversation.collect();
    if (resets(conversation).includes(1)) return check;
  }
  return null;
}

const silence = lingerSilenceMs / checkAnsweredMs + 1;
const most = lingerMs / checkAnsweredMs;
/** Sends all that the window allows. */
const fill = (conversation: Conversation, bytes = windowBytes): void => {
  for (let left = bytes; left > 0; left -= 16_384) conversation.send(data(1, Math.min(left, 16_384)));
};

test("the response and its reset are never written together, and the reset has no error", () => {
  const conversation = answered();
  fill(conversation);
  expect(conversation.session.hasAnswered).toBe(true);
  expect(resets(conversation)).toEqual([]);
  expect(checksUntilReset(conversation)).toBe(2);
  expect(conversation.outcome).toBe("none");
  expect(conversation.session.hasAnswered).toBe(false);
});

test.each([
  ["that is silent", silence, {}],
  ["that has used up its window", 2, { before: (check: number, c: Conversation) => check === 1 && fill(c) }],
  [
    "that leaves one byte of its window",
    silence,
    { before: (n: number, c: Conversation) => n === 1 && fill(c, windowBytes - 1) },
  ],
  ["that sends a byte before each check", most, { before: (_: number, c: Conversation) => c.send(data(1, 1)) }],
  [
    "that is silent for less than it may, once",
    silence + 9,
    { before: (n: number, c: Conversation) => n === 10 && c.send(data(1, 1)) },
  ],
  ["that is silent, in a hurry", 2, { isInHurry: true }],
  ["that sends, in a hurry", 2, { isInHurry: true, before: (_: number, c: Conversation) => c.send(data(1, 1)) }],
] as const)(
  "a client %s is told to stop at check %i",
  (_, checks, {
    isInHurry = false,
    ...rest
  }: {
    isInHurry?: boolean;
    before?: (check: number, conversation: Conversation) => unknown;
  }) => {
    const conversation = answered();
    const before = (check: number): void => void rest.before?.(check, conversation);
    expect(checksUntilReset(conversation, { isInHurry, before })).toBe(checks);
    expect(conversation.outcome).toBe("none");
  },
);

test("a client that was too slow is told when it has read the answer", () => {
  const conversation = answered();
  conversation.stream(1).isTooSlow = true;
  expect(checksUntilReset(conversation)).toBe(2);
});

test.each([
  ["no acknowledgement", Buffer.alloc(0)],
  ["one for another stream", frame(frameTypes.ping, 1, 0, Buffer.from("read\0\0\0\x03", "latin1"))],
  ["one of another PING", frame(frameTypes.ping, 1, 0, "headgate")],
])("a client of which comes %s may have read nothing, so it is told at the end, or in a hurry", (_, bytes) => {
  const conversation = answered(lingerMs, 100, false).send(bytes);
  fill(conversation);
  expect(checksUntilReset(conversation)).toBe(most);
  const another = answered(lingerMs, 100, false).send(bytes);
  expect(checksUntilReset(another, { isInHurry: true })).toBe(2);
});

test("the acknowledgement of an answer does not end a connection that is asked to end", () => {
  const { session } = answered(lingerMs, 100, false);
  session.beginEnd();
  session.feed(frame(frameTypes.ping, 1, 0, Buffer.from("read\0\0\0\x01", "latin1")));
  session.next();
  expect(session.isAwaitingAck).toBe(true);
});

test.each([
  ["1ms", 1, 1],
  ["1s", 1_000, 4],
])("lingerMs %s is the most", (_, ms, checks) => {
  const conversation = answered(ms);
  expect(checksUntilReset(conversation, { before: () => conversation.send(data(1, 1)) })).toBe(checks);
});

test.each([
  ["the end of its body", data(1, 9, endStream)],
  ["trailers", none],
  ["a reset of its own", reset],
])("a client that sends %s is told nothing", (_, last) => {
  const conversation = answered().send(last);
  expect(conversation.session.hasAnswered).toBe(false);
  expect(checksUntilReset(conversation, { most: 300 })).toBe(null);
});

test("its window is not opened again, and the connection's is", () => {
  const conversation = answered();
  fill(conversation);
  for (let id = 3; id < 9; id += 2) {
    conversation.send(open(id, "/answer"));
    for (let i = 0; i < 3; i += 1) conversation.send(data(id, 16_384));
  }
  const updates = conversation.sent.filter((sent) => sent.startsWith("windowUpdate"));
  expect(updates.length).toBeGreaterThan(0);
  expect(updates.filter((sent) => !sent.startsWith("windowUpdate 0"))).toEqual([]);
  expect(conversation.outcome).toBe("none");
});

test("DATA is taken for as long as it may come, however many other streams end meanwhile", () => {
  const conversation = answered();
  for (let id = 3; id < 3_003; id += 2) conversation.send(whole(id, "/answer"));
  conversation.send(data(1, 9)).send(data(1, 9, endStream));
  expect(conversation.outcome).toBe("none");
  expect(conversation.send(data(1, 9)).outcome).toBe("connection streamClosed");
});

test("as many streams as a client may have wait; one more is reset with its response", () => {
  const conversation = answered(lingerMs, 3);
  for (const id of [3, 5, 7]) conversation.send(open(id, "/answer"));
  expect(resets(conversation)).toEqual([7]);
});

test("an end that was asked for waits for the resets", () => {
  const conversation = answered();
  const { session } = conversation;
  session.finishEnd();
  expect(session.isFinished).toBe(false);
  expect(checksUntilReset(conversation, { isInHurry: true })).toBe(2);
  expect(session.isFinished).toBe(true);
});

test("a connection that fails or is lost has no streams that wait", () => {
  for (const end of ["fail", "close"] as const) {
    const { session } = answered();
    if (end === "fail") session.fail(1);
    else session.close();
    expect([session.hasAnswered, session.isFinished]).toEqual([false, true]);
  }
});
