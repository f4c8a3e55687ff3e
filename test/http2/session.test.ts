// What a session does with streams: windows in both directions, settings, trailers, ends, and what it tells whoever drives it.
import { describe, expect, test } from "vitest";
import { encodeFields } from "../../src/http2/hpack.ts";
import { code, endHeaders, endStream, frame, frameTypes, literals } from "../support/http2-frames.ts";
import {
  begin,
  Conversation,
  data,
  open,
  preface,
  requestFields,
  settings,
  stepsInTurn,
  whole,
} from "./conversation.ts";

const ok = encodeFields([":status", "200"]);
const trailers = encodeFields(["grpc-status", "0"]);
const initialWindow = (bytes: number): Buffer => settings([4, bytes]);
const update = (stream: number, bytes: number): Buffer => frame(frameTypes.windowUpdate, 0, stream, code(bytes));
const reset = (stream: number): Buffer => frame(frameTypes.rstStream, 0, stream, code(8));
const ping = (text: string, flags = 0): Buffer => frame(frameTypes.ping, flags, 0, text);

const start = (...more: Buffer[]): Conversation => {
  const conversation = new Conversation().send(Buffer.concat([begin, ...more]));
  conversation.frames.length = 0;
  return conversation;
};

/** Does something that sends frames, and returns them. */
function sentBy(conversation: Conversation, act: () => void): string[] {
  conversation.collect();
  conversation.frames.length = 0;
  act();
  conversation.collect();
  return conversation.sent;
}

test("the first frames of the server are SETTINGS with the bounds on streams and heads, and a larger window", () => {
  const [first] = new Conversation().bytesOut;
  const settings = "00000c040000000000000300000064000600004000";
  expect(first?.toString("hex")).toBe(`${settings}000004080000000000${(131_073).toString(16).padStart(8, "0")}`);
});

test("SETTINGS and PING are acknowledged, in the order in which they came", () => {
  const conversation = new Conversation().send(Buffer.concat([begin, ping("12345678"), settings([1, 9])]));
  const answers = conversation.frames.map(({ type, flags, payload }) => [type, flags, payload.toString()]);
  expect(answers).toEqual([
    [frameTypes.settings, 1, ""],
    [frameTypes.ping, 1, "12345678"],
    [frameTypes.settings, 1, ""],
  ]);
});

test("a request with body and trailers is told piece by piece, and what the trailers say is dropped", () => {
  const { events, fields } = start(
    open(1, "/x"),
    data(1, "ab"),
    whole(3),
    data(1, "c"),
    frame(frameTypes.headers, endHeaders | endStream, 1, literals([["x", "y"]])),
  );
  expect(events).toEqual(["request 1", "data 1 ab", "request 3", "end 3", "data 1 c", "end 1"]);
  expect(fields[0]).toEqual(requestFields("/x").flat());
});

test("work that events cause leaves the rest for later turns", () => {
  const conversation = start();
  const { session } = conversation;
  /** The requests of one turn, each of which takes so many steps. */
  const turn = (steps: number): number => {
    let requests = 0;
    conversation.turn.stepsLeft = stepsInTurn;
    for (let event = session.next(); event !== null; event = session.next()) {
      requests += 1;
      conversation.turn.stepsLeft -= steps;
    }
    return requests;
  };
  session.feed(Buffer.concat(Array.from({ length: 20 }, (_, i) => whole(2 * i + 1))));
  expect([turn(0), turn(0)]).toEqual([20, 0]);
  session.feed(Buffer.concat(Array.from({ length: 20 }, (_, i) => whole(2 * i + 41))));
  expect([turn(400), turn(400), turn(1_100), turn(0)]).toEqual([3, 3, 1, 13]);
});

test("a head beyond the bounds of heads, and within twice of them, is told as too large", () => {
  const long = (bytes: number) => open(1, "/", [["x", "y".repeat(bytes)]]);
  expect(start(long(16_000)).events).toEqual(["request 1"]);
  expect(start(long(16_200)).events).toEqual(["request 1 too large"]);
  const fields = (count: number) => open(1, "/", Array(count).fill(["x", ""]));
  expect(start(fields(196)).events).toEqual(["request 1"]);
  expect(start(fields(197)).events).toEqual(["request 1 too large"]);
});

describe("a response", () => {
  test("with a body and trailers ends its stream, and the head says once that there is no table", () => {
    const conversation = start(whole(1), whole(3));
    const { session, streams } = conversation;
    const sent = sentBy(conversation, () => {
      for (const stream of streams.values()) {
        session.respond(stream, ok, false);
        session.write(stream, "hello");
        session.end(stream, trailers);
      }
    });
    expect(sent).toEqual(["headers 1", "data 1 5", "headers 1 end", "headers 3", "data 3 5", "headers 3 end"]);
    const heads = conversation.frames.filter(({ type }) => type === frameTypes.headers);
    expect(heads.map(({ payload }) => payload[0])).toEqual([0x20, 0, 0x88, 0]);
    expect(session.takeClosed().map(({ id, isBrokenOff }) => [id, isBrokenOff])).toEqual([
      [1, false],
      [3, false],
    ]);
  });

  test("without a body, and one whose body is empty, end with one frame", () => {
    const conversation = start(whole(1), whole(3));
    const { session } = conversation;
    const sent = sentBy(conversation, () => {
      session.respond(conversation.stream(1), ok, true);
      session.respond(conversation.stream(3), ok, false);
      session.end(conversation.stream(3));
    });
    expect(sent).toEqual(["headers 1 end", "headers 3", "data 3 0 end"]);
  });

  test("before the end of its request tells the client to stop, without an error", () => {
    const conversation = start(open(1));
    const sent = sentBy(conversation, () => conversation.session.respond(conversation.stream(1), ok, true));
    expect(sent).toEqual(["headers 1 end", "rstStream 1"]);
    expect(conversation.outcome).toBe("none");
    expect(conversation.send(Buffer.concat([data(1, 9), data(1, 9, endStream)])).outcome).toBe("none");
  });

  test("may end with a last piece, in one frame", () => {
    const conversation = start(whole(1));
    const sent = sentBy(conversation, () => {
      conversation.session.respond(conversation.stream(1), ok, false);
      conversation.session.end(conversation.stream(1), "", "hello");
    });
    expect(sent).toEqual(["headers 1", "data 1 5 end"]);
  });

  test("waits while 64 KiB are to be written, in turn with others, and says when it may go on", () => {
    const conversation = start(settings([4, 2 ** 20]), windowOf(0, 2 ** 20), open(1), open(3));
    const { session } = conversation;
    const [one, other] = [conversation.stream(1), conversation.stream(3)];
    expect([one, other].map((stream) => session.write(stream, "x".repeat(100_000)))).toEqual([false, false]);
    expect(session.takeDrained()).toEqual([]);
    /** The streams of the DATA frames that leave at once. */
    const take = (): number[] => {
      const from = conversation.frames.length;
      conversation.collect();
      return conversation.frames.slice(from).map(({ stream }) => stream);
    };
    expect(take()).toEqual([1, 1, 1, 1]);
    expect(take()).toEqual([1, 3, 1, 3]);
    expect(session.takeDrained()).toEqual([]);
    expect(take()).toEqual([1, 3, 3, 3, 3]);
    expect(session.takeDrained()).toEqual([one]);
    expect(take()).toEqual([3]);
    expect(session.takeDrained()).toEqual([other]);
    expect([session.hasOutput, session.hasDrained]).toEqual([false, false]);
  });

  test("with a head of 40,000 bytes continues in other frames", () => {
    const conversation = start(whole(1));
    const block = encodeFields([":status", "200", "x", "y".repeat(40_000)]);
    const sent = sentBy(conversation, () => conversation.session.respond(conversation.stream(1), block, true));
    expect(sent).toEqual(["headers 1 end", "continuation 1", "continuation 1"]);
    const { frames } = conversation;
    expect(frames.map(({ flags }) => flags & endHeaders)).toEqual([0, 0, endHeaders]);
    expect(Buffer.concat(frames.map(({ payload }) => payload)).toString("latin1")).toBe(`\x20${block}`);
  });

  test("after the stream is closed is nothing", () => {
    const conversation = start(whole(1), reset(1));
    const { session } = conversation;
    const stream = conversation.stream(1);
    const sent = sentBy(conversation, () => {
      session.respond(stream, ok, false);
      session.write(stream, "x");
      session.end(stream);
      session.reset(stream, 2);
    });
    expect(sent).toEqual([]);
    expect(session.takeClosed().map(({ id, isBrokenOff }) => [id, isBrokenOff])).toEqual([[1, true]]);
  });
});

describe("the client's windows", () => {
  const respond = (conversation: Conversation, id: number, bytes: number, end = ""): void => {
    const stream = conversation.stream(id);
    conversation.session.respond(stream, ok, false);
    conversation.session.write(stream, Buffer.alloc(bytes, "r"));
    conversation.session.end(stream, end);
  };

  test("a body goes out in frames of 16 KiB, up to the window, and on when it opens", () => {
    const conversation = start(whole(1));
    expect(sentBy(conversation, () => respond(conversation, 1, 100_000))).toEqual([
      ...["headers 1", "data 1 16384", "data 1 16384", "data 1 16384", "data 1 16383"],
    ]);
    expect(sentBy(conversation, () => conversation.send(update(1, 9)))).toEqual([]);
    expect(sentBy(conversation, () => conversation.send(update(0, 5)))).toEqual(["data 1 5"]);
    expect(sentBy(conversation, () => conversation.send(update(0, 100_000)))).toEqual(["data 1 4"]);
    const last = sentBy(conversation, () => conversation.send(update(1, 100_000)));
    expect(last).toEqual(["data 1 16384", "data 1 16384", "data 1 1688 end"]);
    expect(conversation.session.streams.size).toBe(0);
  });

  test("trailers wait behind a body that waits", () => {
    const conversation = start(initialWindow(3), whole(1));
    expect(sentBy(conversation, () => respond(conversation, 1, 5, trailers))).toEqual(["headers 1", "data 1 3"]);
    expect(sentBy(conversation, () => conversation.send(update(1, 2)))).toEqual(["data 1 2", "headers 1 end"]);
  });

  test("an empty body, and trailers without a body, need no window", () => {
    const conversation = start(initialWindow(0), whole(1), whole(3));
    expect(sentBy(conversation, () => respond(conversation, 1, 0))).toEqual(["headers 1", "data 1 0 end"]);
    expect(sentBy(conversation, () => respond(conversation, 3, 0, trailers))).toEqual(["headers 3", "headers 3 end"]);
  });

  test("a smaller INITIAL_WINDOW_SIZE can make a window negative, and a larger one opens it", () => {
    const conversation = start(initialWindow(100), whole(1));
    expect(sentBy(conversation, () => respond(conversation, 1, 150))).toEqual(["headers 1", "data 1 100"]);
    expect(sentBy(conversation, () => conversation.send(initialWindow(20)))).toEqual(["settings 0"]);
    expect(conversation.stream(1).sendWindow).toBe(-80);
    expect(sentBy(conversation, () => conversation.send(update(1, 80)))).toEqual([]);
    expect(sentBy(conversation, () => conversation.send(initialWindow(21)))).toEqual(["data 1 1", "settings 0"]);
    expect(sentBy(conversation, () => conversation.send(initialWindow(70)))).toEqual(["data 1 49 end", "settings 0"]);
  });

  test("a change of INITIAL_WINDOW_SIZE does not change the window of the connection", () => {
    const conversation = start(initialWindow(1_000_000), whole(1));
    const sent = sentBy(conversation, () => respond(conversation, 1, 100_000));
    expect(sent.slice(1).map((one) => Number(one.split(" ")[2]))).toEqual([16_384, 16_384, 16_384, 16_383]);
  });

  test("streams that wait for the connection take turns, a frame each", () => {
    const conversation = start(initialWindow(1_000_000), whole(1), whole(3), whole(5));
    for (const id of [1, 3, 5]) respond(conversation, id, id === 1 ? 65_535 + 40_000 : 20_000);
    const sent = sentBy(conversation, () => conversation.send(update(0, 1_000_000)));
    expect(sent).toEqual([
      ...["data 1 16384", "data 3 16384", "data 5 16384"],
      ...["data 1 16384", "data 3 3616 end", "data 5 3616 end"],
      "data 1 7232 end",
    ]);
  });

  test("a stream without a window does not keep others from the connection's", () => {
    const conversation = start(initialWindow(10), whole(1), whole(3));
    respond(conversation, 1, 50);
    conversation.send(Buffer.concat([initialWindow(5), update(3, 100)]));
    expect(sentBy(conversation, () => respond(conversation, 3, 50))).toContain("data 3 50");
  });

  test("whoever writes is told when to wait", () => {
    const conversation = start(initialWindow(5), whole(1));
    const { session } = conversation;
    const stream = conversation.stream(1);
    session.respond(stream, ok, false);
    expect([session.write(stream, "12345"), session.write(stream, ""), session.write(stream, "6")]).toEqual([
      ...[true, true, false],
    ]);
    conversation.send(update(1, 1));
    expect(stream.queuedBytes).toBe(0);
  });
});

const windowOf = (stream: number, bytes: number): Buffer => frame(frameTypes.windowUpdate, 0, stream, code(bytes));

/** Sends as much as the window of a new stream allows. */
function fill(conversation: Conversation, stream: number): void {
  for (const bytes of [16_384, 16_384, 16_384, 16_383]) conversation.send(data(stream, bytes));
}

describe("the gateway's windows", () => {
  test("are opened again when half of a stream's has been used, which grows to 128 KiB if nothing waits", () => {
    const conversation = start(open(1));
    const sent = Array.from({ length: 10 }, () => sentBy(conversation, () => conversation.send(data(1, 16_384))));
    const both = ["windowUpdate 1 65536", "windowUpdate 0 65536"];
    const grown = [`windowUpdate 1 ${32_768 + 131_072 - 65_535}`, "windowUpdate 0 32768"];
    expect(sent).toEqual([[], grown, [], [], [], both, [], [], [], both]);
    expect(conversation.stream(1).receiveWindow).toBe(131_072);
  });

  test("a stream's does not grow while some of its body waits", () => {
    const conversation = start(open(1));
    conversation.usesData = false;
    for (let i = 0; i < 3; i += 1) conversation.send(data(1, 16_384));
    const sent = sentBy(conversation, () => conversation.session.used(conversation.stream(1), 2 * 16_384));
    expect(sent).toEqual(["windowUpdate 1 32768", "windowUpdate 0 32768"]);
  });

  test("a stream's is not opened for a client that may send all that it has announced", () => {
    const conversation = start(open(1, "/", [["content-length", "65535"]]));
    expect(sentBy(conversation, () => fill(conversation, 1))).toEqual([]);
    expect(conversation.send(data(1, 0, endStream)).outcome).toBe("none");
  });

  test("padding is given back with the bytes that it comes with", () => {
    const conversation = start(open(1));
    const padded = frame(frameTypes.data, 8, 1, Buffer.concat([Buffer.of(255), Buffer.alloc(255)]));
    for (let i = 0; i < 127; i += 1) conversation.send(padded);
    const sent = sentBy(conversation, () => conversation.send(padded));
    expect(sent).toEqual(["windowUpdate 1 98305", "windowUpdate 0 32768"]);
  });

  test("a stream that sends beyond its window is reset", () => {
    const conversation = start(open(1));
    conversation.usesData = false;
    fill(conversation, 1);
    expect(conversation.send(data(1, 1)).outcome).toBe("stream 1 flowControl");
  });

  test("the connection's allows 192 KiB of bodies that wait, and no more", () => {
    const conversation = start(open(1), open(3), open(5), open(7));
    conversation.usesData = false;
    for (const stream of [1, 3, 5]) fill(conversation, stream);
    expect(conversation.send(data(7, 3)).outcome).toBe("none");
    expect(conversation.send(data(7, 1)).outcome).toBe("connection flowControl");
  });

  test("the connection's is opened again when the bodies are used", () => {
    const conversation = start(open(1), open(3), open(5), open(7));
    conversation.usesData = false;
    for (const stream of [1, 3, 5]) fill(conversation, stream);
    conversation.session.used(conversation.stream(1), 65_535);
    expect(conversation.send(data(7, 16_384)).outcome).toBe("none");
  });

  test("the connection's is opened earlier when bodies that wait take most of it", () => {
    const conversation = start(open(1), open(3), open(5));
    conversation.usesData = false;
    for (const stream of [1, 3]) fill(conversation, stream);
    conversation.usesData = true;
    conversation.send(data(5, 16_384));
    expect(sentBy(conversation, () => conversation.send(data(5, 8_192)))).toEqual(["windowUpdate 0 24576"]);
  });

  test("the connection's is opened while bodies that wait leave less of it than a frame", () => {
    const conversation = start(open(1), open(3), open(5), open(7));
    conversation.usesData = false;
    for (const stream of [1, 3]) fill(conversation, stream);
    for (let i = 0; i < 3; i += 1) conversation.send(data(5, 16_384));
    conversation.send(data(5, 12_288));
    conversation.usesData = true;
    // All that is left of it, which the client can exceed only when it is told.
    expect(sentBy(conversation, () => conversation.send(data(7, 4_098)))).toEqual(["windowUpdate 0 4098"]);
  });

  test("a stream's window is enforced where the connection's is larger", () => {
    const conversation = start(open(1), open(3));
    conversation.usesData = false;
    const { session } = conversation;
    for (let i = 0; i < 3; i += 1) conversation.send(data(3, 16_384));
    session.used(conversation.stream(3), 3 * 16_384);
    for (let i = 0; i < 3; i += 1) conversation.send(data(1, 16_384));
    for (let i = 0; i < 3; i += 1) session.used(conversation.stream(3), 16_384);
    conversation.stream(1).receiveWindow -= 1;
    expect(conversation.send(data(1, 16_383)).outcome).toBe("stream 1 flowControl");
  });

  test("what comes for a stream that is closed is given back to the connection", () => {
    const conversation = start(open(1, "/answer"));
    const sent = sentBy(conversation, () => {
      for (let i = 0; i < 40; i += 1) conversation.send(data(1, 16_384), 5_000);
    });
    expect(sent).toEqual(Array(10).fill("windowUpdate 0 65536"));
    expect(conversation.outcome).toBe("none");
  });

  test("a stream that is closed in the middle of a frame gives back the rest of it", () => {
    const conversation = start(open(1));
    const piece = data(1, 16_384);
    conversation.sendPiece(piece.subarray(0, 2_000));
    conversation.session.reset(conversation.stream(1), 8);
    const sent = sentBy(conversation, () => {
      conversation.sendPiece(piece.subarray(2_000));
      for (let i = 0; i < 3; i += 1) conversation.send(data(1, 16_384));
    });
    expect(sent).toEqual(["windowUpdate 0 65536"]);
  });
});

describe("an end that was asked for", () => {
  test("sends two GOAWAYs, and the client's acknowledgement of a PING makes the second", () => {
    const conversation = start(whole(1));
    const { session, frames } = conversation;
    expect(sentBy(conversation, () => session.beginEnd())).toEqual(["goaway 0", "ping 0"]);
    expect(frames[0]?.payload.readUInt32BE(0)).toBe(2 ** 31 - 1);
    conversation.send(whole(3));
    expect(conversation.events).toContain("request 3");
    expect(sentBy(conversation, () => conversation.send(ping("headgate", 1)))).toEqual(["goaway 0"]);
    expect([frames[0]?.payload.readUInt32BE(0), frames[0]?.payload.readUInt32BE(4)]).toEqual([3, 0]);
    expect(session.isFinished).toBe(false);
    const late = sentBy(conversation, () => conversation.send(Buffer.concat([open(5), data(5, 9), reset(5)])));
    expect(late).toEqual([]);
    expect(conversation.events).not.toContain("request 5");
    for (const id of [1, 3]) session.respond(conversation.stream(id), ok, true);
    expect(session.isFinished).toBe(true);
    expect(conversation.outcome).toBe("none");
  });

  test("keeps the table in step with heads that nobody serves any more", () => {
    const conversation = start();
    conversation.session.finishEnd();
    const entry = Buffer.concat([literals(requestFields()), Buffer.of(0x40, 1, 0x78, 1, 0x79)]);
    conversation.send(frame(frameTypes.headers, endHeaders, 1, entry));
    conversation.send(frame(frameTypes.headers, endHeaders, 3, Buffer.of(0x80 + 62)));
    expect(conversation.outcome).toBe("none");
    expect(conversation.send(frame(frameTypes.headers, endHeaders, 5, Buffer.of(0x80 + 63))).outcome).toBe(
      "connection compression",
    );
  });

  test("by the client's own GOAWAY lets streams finish, and serves those that it opens meanwhile", () => {
    const conversation = start(whole(1));
    const { session } = conversation;
    const goaway = frame(frameTypes.goaway, 0, 0, Buffer.alloc(8));
    expect(sentBy(conversation, () => conversation.send(goaway))).toEqual(["goaway 0", "ping 0"]);
    conversation.send(Buffer.concat([whole(3), ping("headgate", 1)]));
    expect(conversation.events).toContain("request 3");
    for (const id of [1, 3]) {
      expect(session.isFinished).toBe(false);
      session.respond(conversation.stream(id), ok, true);
    }
    expect(session.isFinished).toBe(true);
  });

  test("ignores any number of streams that come too late, and goes on with those that it serves", () => {
    const conversation = start(whole(1));
    conversation.session.finishEnd();
    for (let id = 3; id < 1_000; id += 2) conversation.send(open(id));
    for (let id = 3; id < 1_000; id += 2) conversation.send(Buffer.concat([data(id, 50), reset(id), data(id, 50)]));
    expect(conversation.outcome).toBe("none");
    conversation.session.respond(conversation.stream(1), ok, true);
    expect(conversation.session.isFinished).toBe(true);
  });
});

test("after an error of the connection all streams are closed, nothing is read, and the GOAWAY names the last stream", () => {
  const conversation = start(whole(1), whole(7));
  conversation.send(Buffer.concat([data(0, 1), whole(9)]));
  expect(conversation.events.at(-1)).toBe("over protocol");
  const [goaway] = conversation.frames;
  expect([goaway?.payload.readUInt32BE(0), goaway?.payload.readUInt32BE(4)]).toEqual([7, 1]);
  expect(conversation.session.takeClosed().map(({ id, isBrokenOff }) => [id, isBrokenOff])).toEqual([
    [1, true],
    [7, true],
  ]);
  expect(sentBy(conversation, () => conversation.send(whole(9)))).toEqual([]);
});

test("a connection that is lost closes its streams and sends nothing", () => {
  const conversation = start(whole(1));
  expect(sentBy(conversation, () => conversation.session.close())).toEqual([]);
  expect(conversation.session.takeClosed().map(({ id }) => id)).toEqual([1]);
  expect(conversation.session.next()).toBe(null);
});

test("whether a head has begun and not ended is told", () => {
  const conversation = new Conversation();
  const head = frame(frameTypes.headers, endStream, 1, literals(requestFields()));
  const isInHeadAfter = (bytes: Buffer): boolean => conversation.send(bytes).session.isInHead;
  expect(isInHeadAfter(Buffer.concat([preface, settings()]))).toBe(false);
  expect(isInHeadAfter(head.subarray(0, 12))).toBe(true);
  expect(isInHeadAfter(head.subarray(12))).toBe(true);
  expect(isInHeadAfter(frame(frameTypes.continuation, endHeaders, 1))).toBe(false);
});
