// What RFC 9113 (sections 3 to 9) and RFC 7541 demand of a server, one row for each demand: what the client sends behind its
// preface and SETTINGS, and which error it is told.
import { code, endHeaders, endStream, frame, frameTypes, integer, literals, text } from "../support/http2-frames.ts";
import { data, open, preface, requestFields, settings, whole } from "./conversation.ts";

export type Rule = readonly [section: string, claim: string, sent: Buffer, outcome: string];

const { headers, priority, rstStream, ping, goaway, windowUpdate, continuation } = frameTypes;
const pushPromise = 5;
const unknown = 0x42;
const padded = 0x8;
const none = Buffer.alloc(0);
const all = (...frames: Buffer[]): Buffer => Buffer.concat(frames);
const zeros = (bytes: number): Buffer => Buffer.alloc(bytes);
const reset = (stream: number): Buffer => frame(rstStream, 0, stream, code(8));
const update = (stream: number, bytes: number): Buffer => frame(windowUpdate, 0, stream, code(bytes));
const block = (bytes: Buffer, flags = endHeaders | endStream, stream = 1): Buffer =>
  frame(headers, flags, stream, bytes);
const head = literals(requestFields("/", "GET"));
/** Only the head of the frame, so that it is refused by that. */
const announced = (type: number, flags: number, stream: number, length: number): Buffer => {
  const bytes = frame(type, flags, stream);
  bytes.writeUIntBE(length, 0, 3);
  return bytes;
};

// What a client is told, of the connection or of its first stream.
const protocol = "connection protocol";
const frameSize = "connection frameSize";
const flowControl = "connection flowControl";
const closed = "connection streamClosed";
const malformed = "stream 1 protocol";
const streamClosed = "stream 1 streamClosed";

/** Begins of connections, instead of the usual one. */
export const beginnings: readonly Rule[] = [
  ["3.4", "a preface that is none", Buffer.from("GET / HTTP/1.1\r\n\r\n"), protocol],
  ["3.4", "a preface whose last byte is wrong", Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r"), protocol],
  ["3.4", "a preface behind an empty line", all(Buffer.from("\r\n"), preface), protocol],
  ["3.4", "a beginning without SETTINGS", all(preface, whole(1)), protocol],
  ["3.4", "a PING before SETTINGS", all(preface, frame(ping, 0, 0, zeros(8))), protocol],
  ["3.4", "an unknown frame before SETTINGS", all(preface, frame(unknown, 0, 0)), protocol],
  ["3.4", "an acknowledgement before SETTINGS", all(preface, frame(frameTypes.settings, 1, 0)), protocol],
  ["3.4", "a preface and SETTINGS", all(preface, settings()), "none"],
  ["3.4", "a preface, SETTINGS and a request", all(preface, settings([4, 1]), whole(1)), "none"],
];

const newField = all(Buffer.of(0x40), text("x"), text("y"));
const longField = all(Buffer.of(0x40), text("x"), text("y".repeat(4_096)));
/** A head with the newest entry of the dynamic table, which has one. */
const asIndexed = all(head, Buffer.of(0x80 + 62));
/** Behind these, a request that is refused adds an entry, to which the trailers of another then refer. */
const inStep = (...before: Buffer[]): Buffer =>
  all(...before, block(all(head, newField), 5, 5), reset(1), block(asIndexed, 5, 7));
const malformedInStep = all(
  block(all(literals([["x", "y"]]), newField), 5, 5),
  block(asIndexed, 5, 7),
  block(asIndexed, 5, 9),
);

const frameRules: readonly Rule[] = [
  ["4.1", "a frame of an unknown type", all(frame(unknown, 0xff, 0, "x"), frame(unknown, 0, 7, zeros(99))), "none"],
  ["4.1", "flags that a type does not have", frame(ping, 0xfe, 0, zeros(8)), "none"],
  ["4.1", "the reserved bit of a stream's number", frame(windowUpdate, 0, 0x8000_0000, code(1)), "none"],
  ["4.2", "DATA of 16,384 bytes", all(open(1), data(1, 16_384)), "none"],
  ["4.2", "DATA of 16,385 bytes", all(open(1), announced(0, 0, 1, 16_385)), frameSize],
  ["4.2", "HEADERS of 16,385 bytes", announced(headers, 4, 1, 16_385), frameSize],
  ["4.2", "CONTINUATION of 16,385 bytes", all(block(head, 0), announced(9, 4, 1, 16_385)), frameSize],
  ["4.2", "SETTINGS of 16,386 bytes", announced(4, 0, 0, 16_386), frameSize],
  ["4.2", "an unknown frame of 16,385 bytes", announced(unknown, 0, 0, 16_385), frameSize],
  ["4.3", "a header block that cannot be decoded", block(Buffer.of(0x80)), "connection compression"],
  ["4.3", "a header block that is cut", block(Buffer.of(0x40, 0x05, 0x61)), "connection compression"],
  [
    "4.3",
    "the block of a refused stream, which changes the table",
    inStep(whole(1), whole(3)),
    "stream 5 refusedStream",
  ],
  ["4.3", "the block of a malformed request, which changes the table", malformedInStep, "stream 5 protocol"],
  ["4.3", "trailers, which change the table", all(open(1), block(newField), block(asIndexed, 5, 3)), "none"],
  [
    "4.3",
    "trailers under way when the gateway reset, which change the table",
    all(open(1, "/answer"), block(newField), block(asIndexed, 5, 3)),
    "none",
  ],
  [
    "4.3",
    "a second block behind the end of a request, which changes the table",
    all(whole(1), block(newField), block(asIndexed, 5, 3)),
    streamClosed,
  ],
  [
    "4.3",
    "a block behind its RST_STREAM, which changes the table",
    all(open(1), reset(1), block(newField), block(asIndexed, 5, 3)),
    streamClosed,
  ],
];

const streamStates: readonly Rule[] = [
  ["5.1", "DATA on an idle stream", data(1, 1), protocol],
  ["5.1", "RST_STREAM on an idle stream", reset(1), protocol],
  ["5.1", "WINDOW_UPDATE on an idle stream", update(1, 1), protocol],
  ["5.1", "CONTINUATION on an idle stream", frame(continuation, 4, 1, head), protocol],
  ["5.1", "PRIORITY on an idle stream", frame(priority, 0, 1, zeros(5)), "none"],
  ["5.1", "PRIORITY of a wrong size on an idle stream", frame(priority, 0, 1, zeros(4)), frameSize],
  ["5.1", "WINDOW_UPDATE of 0 on an idle stream", update(1, 0), protocol],
  ["5.1", "DATA behind the end of a request", all(whole(1), data(1, 1)), streamClosed],
  ["5.1", "HEADERS behind the end of a request", all(whole(1), whole(1)), streamClosed],
  ["5.1", "DATA behind trailers", all(open(1), block(none), data(1, 1)), streamClosed],
  ["5.1", "DATA without a byte behind the end of a request", all(whole(1), data(1, 0)), streamClosed],
  ["5.1", "trailers twice", all(open(1), block(none), block(none)), streamClosed],
  ["5.1", "WINDOW_UPDATE behind the end of a request", all(whole(1), update(1, 1)), "none"],
  ["5.1", "PRIORITY behind the end of a request", all(whole(1), frame(priority, 0, 1, zeros(5))), "none"],
  ["5.1", "RST_STREAM behind the end of a request", all(whole(1), reset(1)), "none"],
  ["5.1", "DATA behind both ends", all(whole(1, "/answer"), data(1, 1)), closed],
  ["5.1", "HEADERS behind both ends", all(whole(1, "/answer"), whole(1)), closed],
  ["5.1", "WINDOW_UPDATE behind both ends", all(whole(1, "/answer"), update(1, 1)), "none"],
  ["5.1", "RST_STREAM behind both ends", all(whole(1, "/answer"), reset(1)), "none"],
  ["5.1", "PRIORITY behind both ends", all(whole(1, "/answer"), frame(priority, 0, 1, zeros(5))), "none"],
  ["5.1", "DATA behind its RST_STREAM", all(open(1), reset(1), data(1, 1)), streamClosed],
  ["5.1", "HEADERS behind its RST_STREAM", all(open(1), reset(1), whole(1)), streamClosed],
  ["5.1", "trailers behind its RST_STREAM", all(whole(1), reset(1), block(none)), streamClosed],
  ["5.1", "RST_STREAM behind its RST_STREAM", all(open(1), reset(1), reset(1)), "none"],
  ["5.1", "WINDOW_UPDATE behind its RST_STREAM", all(open(1), reset(1), update(1, 1)), "none"],
  ["5.1", "PRIORITY behind its RST_STREAM", all(open(1), reset(1), frame(priority, 0, 1, zeros(5))), "none"],
  ["5.1", "DATA under way when the gateway reset", all(open(1, "/answer"), data(1, 9), data(1, 9, endStream)), "none"],
  ["5.1", "trailers under way when the gateway reset", all(open(1, "/answer"), block(none)), "none"],
  ["5.1", "RST_STREAM under way when the gateway reset", all(open(1, "/answer"), reset(1)), "none"],
  ["5.1", "WINDOW_UPDATE under way when the gateway reset", all(open(1, "/answer"), update(1, 9)), "none"],
  [
    "5.1",
    "DATA behind the end that was under way when the gateway reset",
    all(open(1, "/answer"), data(1, 9, endStream), data(1, 9)),
    closed,
  ],
  [
    "5.1",
    "DATA behind trailers that were under way when the gateway reset",
    all(open(1, "/answer"), block(none), data(1, 9)),
    closed,
  ],
  ["5.1.1", "a stream of an even number", whole(2), protocol],
  ["5.1.1", "DATA on a stream of an even number", all(whole(3), data(2, 1)), protocol],
  ["5.1.1", "a request on stream 0", whole(0), protocol],
  ["5.1.1", "a number that is lower than the last", all(whole(5), whole(3)), protocol],
  ["5.1.1", "DATA on a number that was left out", all(whole(5), data(3, 1)), closed],
  ["5.1.1", "numbers that leave others out", all(whole(1), whole(2 ** 31 - 1)), "none"],
  ["5.1.2", "a third stream where two are allowed", all(whole(1), whole(3), whole(5)), "stream 5 refusedStream"],
  ["5.1.2", "a third stream when one of two has ended", all(whole(1), whole(3, "/answer"), whole(5)), "none"],
  [
    "5.4.2",
    "DATA under way to a refused stream",
    all(whole(1), whole(3), open(5), data(5, 9)),
    "stream 5 refusedStream",
  ],
  ["5.1.2", "a third stream behind one that the client has reset", all(whole(1), whole(3), reset(1), whole(5)), "none"],
  ["5.4.2", "RST_STREAM of a stream that is reset for its error", all(open(1), update(1, 0), reset(1)), malformed],
  ["5.5", "an unknown frame on a stream that is open", all(open(1), frame(unknown, 0xff, 1, "x"), data(1, 1)), "none"],
  ["5.5", "an unknown frame within a header block", all(block(head, 0), frame(unknown, 0, 1)), protocol],
];

const frameTypeRules: readonly Rule[] = [
  ["6.1", "DATA on stream 0", data(0, 1), protocol],
  ["6.1", "padding as long as the frame", all(open(1), frame(0, padded, 1, Buffer.of(2, 0))), protocol],
  ["6.1", "padding that fills the frame", all(open(1), frame(0, padded, 1, Buffer.of(2, 0, 0))), "none"],
  ["6.1", "padding that is not zero", all(open(1), frame(0, padded, 1, Buffer.of(2, 0, 1, 1))), "none"],
  ["6.1", "the longest padding", all(open(1), frame(0, padded, 1, all(Buffer.of(255), zeros(255)))), "none"],
  ["6.1", "DATA without a byte that ends the request", all(open(1), data(1, 0, endStream)), "none"],
  ["6.1", "padding of no bytes", all(open(1), frame(0, padded, 1, Buffer.of(0, 0, 0))), "none"],
  ["6.1", "padded DATA without the length of its padding", all(open(1), frame(0, padded, 1)), frameSize],
  ["6.2", "HEADERS padded by more than they have", block(Buffer.of(9, 0x82), 0xd), protocol],
  ["6.2", "padded HEADERS with a whole head", block(all(Buffer.of(3), head, zeros(3)), 0xd), "none"],
  ["6.2", "padded HEADERS without a byte", block(none, 0xd), frameSize],
  ["6.2", "HEADERS too short for their priority", block(zeros(4), 0x25), frameSize],
  ["6.2", "HEADERS too short for padding and priority", block(zeros(5), 0x2d), frameSize],
  ["6.2", "HEADERS with a priority", block(all(zeros(5), head), 0x25), "none"],
  ["6.2", "HEADERS padded and with a priority", block(all(Buffer.of(2), zeros(5), head, zeros(2)), 0x2d), "none"],
  ["6.2", "padding that reaches into the priority", block(all(Buffer.of(3), zeros(7)), 0x2d), protocol],
  ["6.2", "HEADERS within another stream's block", all(block(head, 0), whole(3)), protocol],
  ["6.2", "HEADERS within their own block", all(block(head, 0), whole(1)), protocol],
  // RFC 7540, 5.3.1, made a stream that depends on itself an error, and h2spec still asks for one here and below (6.3).
  // RFC 9113, 5.3.2, takes the rule back with the priorities.
  ["6.2", "HEADERS with a priority of the stream itself", block(all(code(1), zeros(1), head), 0x25), "none"],
  ["6.2", "HEADERS without END_HEADERS, and DATA", all(block(head, endStream), data(1, 1)), protocol],
  ["6.2", "HEADERS without END_HEADERS, and RST_STREAM", all(block(head, 1), reset(1)), protocol],
  ["6.2", "HEADERS without END_HEADERS, and WINDOW_UPDATE", all(block(head, 1), update(0, 1)), protocol],
  ["6.2", "HEADERS without END_HEADERS, and GOAWAY", all(block(head, 1), frame(goaway, 0, 0, zeros(8))), protocol],
  ["6.3", "PRIORITY on stream 0", frame(priority, 0, 0, zeros(5)), protocol],
  ["6.3", "PRIORITY of 4 bytes", all(open(1), frame(priority, 0, 1, zeros(4))), "stream 1 frameSize"],
  ["6.3", "PRIORITY of 6 bytes", all(open(1), frame(priority, 0, 1, zeros(6))), "stream 1 frameSize"],
  ["6.3", "PRIORITY of a stream on itself", all(open(1), frame(priority, 0, 1, Buffer.of(0, 0, 0, 1, 9))), "none"],
  ["6.4", "RST_STREAM on stream 0", reset(0), protocol],
  ["6.4", "RST_STREAM of 3 bytes", all(open(1), frame(rstStream, 0, 1, zeros(3))), frameSize],
  ["6.4", "RST_STREAM of 5 bytes", all(open(1), frame(rstStream, 0, 1, zeros(5))), frameSize],
  ["6.4", "RST_STREAM of an unknown code", all(open(1), frame(rstStream, 0, 1, code(0xdead))), "none"],
  ["6.5", "SETTINGS on a stream", frame(4, 0, 1), protocol],
  ["6.5", "SETTINGS of 5 bytes", frame(4, 0, 0, zeros(5)), frameSize],
  ["6.5", "SETTINGS of 7 bytes", frame(4, 0, 0, zeros(7)), frameSize],
  ["6.5", "an acknowledgement with a setting", frame(4, 1, 0, zeros(6)), frameSize],
  ["6.5", "SETTINGS of one byte", frame(4, 0, 0, zeros(1)), frameSize],
  ["6.5", "SETTINGS without a setting", settings(), "none"],
  ["6.5", "an acknowledgement on a stream", frame(4, 1, 1), protocol],
  ["6.5", "an acknowledgement", frame(4, 1, 0), "none"],
  ["6.5.2", "ENABLE_PUSH of 2", settings([2, 2]), protocol],
  ["6.5.2", "ENABLE_PUSH of 0 and 1", settings([2, 0], [2, 1]), "none"],
  ["6.5.2", "INITIAL_WINDOW_SIZE of 2^31", settings([4, 2 ** 31]), flowControl],
  ["6.5.2", "INITIAL_WINDOW_SIZE of 2^31 - 1", settings([4, 2 ** 31 - 1]), "none"],
  ["6.5.2", "INITIAL_WINDOW_SIZE of 0", settings([4, 0]), "none"],
  ["6.5.2", "MAX_FRAME_SIZE of 16,383", settings([5, 16_383]), protocol],
  ["6.5.2", "MAX_FRAME_SIZE of 16,384", settings([5, 16_384]), "none"],
  ["6.5.2", "MAX_FRAME_SIZE of 2^24 - 1", settings([5, 2 ** 24 - 1]), "none"],
  ["6.5.2", "MAX_FRAME_SIZE of 2^24", settings([5, 2 ** 24]), protocol],
  ["6.5.2", "a setting that nobody knows", settings([0xabcd, 0xffff_ffff]), "none"],
  ["6.5.2", "HEADER_TABLE_SIZE of 0 and more", settings([1, 0], [1, 2 ** 32 - 1]), "none"],
  ["6.5.2", "MAX_FRAME_SIZE of 0", settings([5, 0]), protocol],
  ["6.5.2", "ENABLE_PUSH of 2^32 - 1", settings([2, 2 ** 32 - 1]), protocol],
  [
    "6.5.2",
    "MAX_CONCURRENT_STREAMS and MAX_HEADER_LIST_SIZE of 0 and more",
    settings([3, 0], [6, 0], [3, 2 ** 32 - 1]),
    "none",
  ],
  ["6.5.3", "a wrong value before a right one of the same setting", settings([5, 1], [5, 16_384]), protocol],
  ["6.5.2", "a wrong value behind a right one", settings([4, 5], [4, 2 ** 31]), flowControl],
  ["6.6", "PUSH_PROMISE", frame(pushPromise, 4, 1, all(code(2), head)), protocol],
  ["6.6", "PUSH_PROMISE on an open stream", all(open(1), frame(pushPromise, 4, 1, code(2))), protocol],
  ["6.7", "PING on a stream", frame(ping, 0, 1, zeros(8)), protocol],
  ["6.7", "PING of 7 bytes", frame(ping, 0, 0, zeros(7)), frameSize],
  ["6.7", "PING of 9 bytes", frame(ping, 0, 0, zeros(9)), frameSize],
  ["6.7", "an acknowledgement of 7 bytes", frame(ping, 1, 0, zeros(7)), frameSize],
  ["6.7", "an acknowledgement of no PING", frame(ping, 1, 0, zeros(8)), "none"],
  ["6.8", "GOAWAY on a stream", frame(goaway, 0, 1, zeros(8)), protocol],
  ["6.8", "GOAWAY of 7 bytes", frame(goaway, 0, 0, zeros(7)), frameSize],
  ["6.8", "GOAWAY with debug data", frame(goaway, 0, 0, zeros(99)), "none"],
  ["6.8", "a stream opened behind the client's own GOAWAY", all(frame(goaway, 0, 0, zeros(8)), whole(1)), "none"],
  ["6.8", "GOAWAY of an unknown code", frame(goaway, 0, 0, all(code(0), code(0xdead))), "none"],
  ["6.8", "GOAWAY twice", all(frame(goaway, 0, 0, zeros(8)), frame(goaway, 0, 0, zeros(8))), "none"],
  ["6.8", "GOAWAY of an even and of an unknown stream", frame(goaway, 0, 0, all(code(98), code(0))), "none"],
  ["6.9", "WINDOW_UPDATE of 3 bytes", frame(windowUpdate, 0, 0, zeros(3)), frameSize],
  ["6.9", "WINDOW_UPDATE of 5 bytes", all(open(1), frame(windowUpdate, 0, 1, zeros(5))), frameSize],
  ["6.9", "WINDOW_UPDATE of 0 for the connection", update(0, 0), protocol],
  ["6.9", "WINDOW_UPDATE of 0 for a stream", all(open(1), update(1, 0)), malformed],
  ["6.9", "WINDOW_UPDATE of 0 behind the end of a request", all(whole(1), update(1, 0)), malformed],
  ["6.9", "the reserved bit of an increment", update(0, 0x8000_0001), "none"],
  ["6.9", "WINDOW_UPDATE with the reserved bit and 0", update(0, 0x8000_0000), protocol],
  ["6.9.1", "a window of 2^31 - 1 for the connection", update(0, 2 ** 31 - 1 - 65_535), "none"],
  ["6.9.1", "a larger window for the connection", update(0, 2 ** 31 - 65_535), flowControl],
  ["6.9.1", "a window of 2^31 - 1 for a stream", all(open(1), update(1, 2 ** 31 - 1 - 65_535)), "none"],
  ["6.9.1", "a larger window for a stream", all(open(1), update(1, 2 ** 31 - 65_535)), "stream 1 flowControl"],
  [
    "6.9.2",
    "SETTINGS that make a stream's window larger than that",
    all(open(1), update(1, 2 ** 31 - 1 - 65_535), settings([4, 65_536])),
    flowControl,
  ],
  ["6.10", "CONTINUATION without HEADERS", frame(continuation, 4, 1, head), protocol],
  ["6.10", "CONTINUATION on stream 0", all(block(head, 0), frame(continuation, 4, 0)), protocol],
  ["6.10", "CONTINUATION of another stream", all(block(head, 0), frame(continuation, 4, 3)), protocol],
  ["6.10", "CONTINUATION behind END_HEADERS", all(open(1), frame(continuation, 4, 1)), protocol],
  ["6.10", "DATA within a header block", all(block(head, 0), data(1, 1)), protocol],
  ["6.10", "PING within a header block", all(block(head, 0), frame(ping, 0, 0, zeros(8))), protocol],
  ["6.10", "PRIORITY within a header block", all(block(head, 0), frame(priority, 0, 1, zeros(5))), protocol],
  ["6.10", "SETTINGS within a header block", all(block(head, 0), settings()), protocol],
  [
    "6.10",
    "a head in HEADERS and CONTINUATION, one of them empty",
    all(block(head.subarray(0, 7), 1), frame(continuation, 0, 1), frame(continuation, 4, 1, head.subarray(7))),
    "none",
  ],
];

type Fields = Parameters<typeof literals>[0];
const get: Fields = requestFields("/", "GET");
const good = (section: string, claim: string, fields: Fields): Rule => [
  section,
  claim,
  block(literals(fields)),
  "none",
];
const bad = (section: string, claim: string, fields: Fields): Rule => [
  section,
  claim,
  block(literals(fields)),
  malformed,
];
const instead = (name: string, value: string): Fields => [[name, value], ...without(name)];
const withField = (name: string, value: string): Fields => [...get, [name, value]];
const without = (name: string): Fields => get.filter(([its]) => its !== name);

const fieldRules: readonly Rule[] = [
  ...["A", "x-A", "x y", "x\0", "x\x7f", "x\x80", "é", "x:y", "\t", ""].map((name) =>
    bad("8.2.1", `a field named ${JSON.stringify(name)}`, withField(name, "x")),
  ),
  ...["x_y", "x.y", "x!#$%&'*+-^`|~", "0"].map((name) => good("8.2.1", `a field named ${name}`, withField(name, "x"))),
  ...["a\0b", "a\rb", "a\nb", " a", "a ", "\ta", "a\t", " "].map((value) =>
    bad("8.2.1", `a value of ${JSON.stringify(value)}`, withField("x", value)),
  ),
  ...["", "a b", "\x80\xff", "\x01", "a\tb"].map((value) =>
    good("8.2.1", `a value of ${JSON.stringify(value)}`, withField("x", value)),
  ),
  ...["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"].map((name) =>
    bad("8.2.2", `the field ${name}`, withField(name, "x")),
  ),
  bad("8.2.2", "TE of gzip", withField("te", "gzip")),
  bad("8.2.2", "TE of trailers and more", withField("te", "trailers, gzip")),
  good("8.2.2", "TE of Trailers", withField("te", "Trailers")),
  good("8.2.2", "TE of trailers", withField("te", "trailers")),
  bad("8.3", "a pseudo-header of responses", [...get, [":status", "200"]]),
  bad("8.3", "a pseudo-header that nobody knows", [[":x", "y"], ...get]),
  bad("8.3", ":protocol, which was not offered", [[":protocol", "websocket"], ...get]),
  bad("8.3", "a pseudo-header behind a field", [...get.slice(0, 3), ["x", "y"], [":authority", "a"]]),
  ...get.map(([name, value]) => bad("8.3", `${name} twice`, [[name, value], ...get])),
  ...[":method", ":scheme", ":path"].map((name) => bad("8.3.1", `no ${name}`, without(name))),
  ...[":method", ":scheme", ":path"].map((name) => bad("8.3.1", `an empty ${name}`, instead(name, ""))),
  ...get.flatMap(([name]) =>
    ["\0", "\r", "\n"].map((octet) =>
      bad("8.2.1", `${name} with ${JSON.stringify(octet)}`, instead(name, `/a${octet}b`)),
    ),
  ),
  ...[":Method", "method:", ":", ": method"].map((name) =>
    bad("8.3", `a pseudo-header named ${JSON.stringify(name)}`, [[name, "GET"], ...get]),
  ),
  bad("8.3", "a pseudo-header of responses alone", [[":status", "200"]]),
  bad("8.3.1", "no field at all", []),
  bad("8.3.1", "a method that is no token", instead(":method", "GE T")),
  bad("8.3.1", "a method with a colon", instead(":method", "GET:")),
  bad("8.3.1", "an absolute path", instead(":path", "http://a/")),
  bad("8.3.1", "a path that is a query", instead(":path", "?x")),
  bad("8.3.1", "a path with a tab", instead(":path", "/a\tb")),
  good("8.3.1", "a method that nobody knows", instead(":method", "FROB")),
  bad("8.5", "CONNECT with a :protocol, which was not offered", [
    [":method", "CONNECT"],
    [":protocol", "websocket"],
    ...get.slice(1),
  ]),
  good("8.3.1", "no :authority", without(":authority")),
  bad("8.3.1", "a path without a slash", instead(":path", "x")),
  bad("8.3.1", "the path * of a GET", instead(":path", "*")),
  good("8.3.1", "the path * of OPTIONS", [[":method", "OPTIONS"], [":path", "*"], ...get.slice(1, 2)]),
  bad("8.3.1", "a line end in a path", instead(":path", "/\r\nx: y")),
  bad("8.3.1", "a blank behind a path", instead(":path", "/ ")),
  good("8.5", "CONNECT", [
    [":method", "CONNECT"],
    [":authority", "a:1"],
  ]),
  bad("8.5", "CONNECT with a path", [[":method", "CONNECT"], ...get.slice(2)]),
  bad("8.5", "CONNECT with a scheme", [
    [":method", "CONNECT"],
    [":scheme", "http"],
    [":authority", "a"],
  ]),
  bad("8.5", "CONNECT without an authority", [[":method", "CONNECT"]]),
];

const withLength = (length: string): Fields => [["content-length", length]];
const messageRules: readonly Rule[] = [
  ["8.1", "a second head that does not end the request", all(open(1), block(none, endHeaders)), malformed],
  ["8.1", "trailers", all(open(1), data(1, 9), block(literals([["x", "y"]]))), "none"],
  ["8.1", "trailers without a field", all(open(1), block(none)), "none"],
  ["8.1", "trailers with :status", all(open(1), block(literals([[":status", "200"]]))), malformed],
  ["8.1", "trailers with a NUL", all(open(1), block(literals([["x", "a\0"]]))), malformed],
  ["8.1", "trailers with an empty name", all(open(1), block(literals([["", "y"]]))), malformed],
  ["8.1", "trailers with a pseudo-header", all(open(1), block(literals([[":path", "/"]]))), malformed],
  ["8.1", "trailers with a capital", all(open(1), block(literals([["X", "y"]]))), malformed],
  ["8.1", "trailers with a connection field", all(open(1), block(literals([["upgrade", "x"]]))), malformed],
  ["8.1.1", "a body longer than announced", all(open(1, "/", withLength("3")), data(1, 4)), malformed],
  [
    "8.1.1",
    "more than announced, in two frames",
    all(open(1, "/", withLength("3")), data(1, 3), data(1, 1)),
    malformed,
  ],
  ["8.1.1", "a body shorter than announced", all(open(1, "/", withLength("3")), data(1, 2, 1)), malformed],
  ["8.1.1", "a body shorter than announced, with trailers", all(open(1, "/", withLength("3")), block(none)), malformed],
  ["8.1.1", "an announced body that does not come", block(literals([...get, ["content-length", "3"]])), malformed],
  ["8.1.1", "a body as long as announced", all(open(1, "/", withLength("3")), data(1, 2), data(1, 1, 1)), "none"],
  ["8.1.1", "a body of no bytes as announced", all(open(1, "/", withLength("0")), data(1, 0, 1)), "none"],
  ["8.1.1", "a body where none is announced", all(open(1, "/", withLength("0")), data(1, 1)), malformed],
  [
    "8.1.1",
    "padding beyond the announced length",
    all(open(1, "/", withLength("1")), frame(0, 9, 1, Buffer.of(2, 9, 0, 0))),
    "none",
  ],
  ...["", "-1", "+1", "1, 1", "0x1", "1e3", "9".repeat(16)].map(
    (length): Rule => ["8.1.1", `a length of ${JSON.stringify(length)}`, open(1, "/", withLength(length)), malformed],
  ),
  ["8.1.1", "two lengths that differ", open(1, "/", [...withLength("1"), ...withLength("2")]), malformed],
  ["8.1.1", "two lengths that are the same", open(1, "/", [...withLength("1"), ...withLength("1")]), malformed],
  ["8.4", "a push by the client", all(open(1), frame(pushPromise, 4, 1, code(2))), protocol],
];

const octets = (...bytes: number[]): Buffer => Buffer.from(bytes);
const hpackRow = (section: string, claim: string, bytes: Buffer, isGood = false): Rule => [
  section,
  claim,
  block(isGood ? all(bytes, head) : bytes),
  isGood ? "none" : "connection compression",
];
const hpackRules: readonly Rule[] = [
  hpackRow("2.3.3", "index 62 of an empty table", integer(62, 7, 0x80)),
  hpackRow("2.3.3", "index 63 of a table with one entry", all(head, newField, integer(63, 7, 0x80))),
  hpackRow(
    "2.3.3",
    "an index behind an eviction",
    all(integer(40, 5, 0x20), head, newField, newField, integer(63, 7, 0x80)),
  ),
  hpackRow("4.2", "an update of the size before the fields", octets(0x20), true),
  hpackRow("4.2", "two updates of the size", all(octets(0x20), integer(4096, 5, 0x20)), true),
  hpackRow("4.2", "an update of the size behind a field", all(head, octets(0x20))),
  hpackRow("4.2", "an update of the size alone behind a field of the table", octets(0x82, 0x20)),
  hpackRow("4.3", "a name of the table whose entry is evicted", all(newField, octets(0x20))),
  [
    "4.3",
    "an update of the size to 0, and back",
    block(all(octets(0x20), integer(4096, 5, 0x20), head, newField, octets(0x80 + 62))),
    "none",
  ],
  hpackRow("4.4", "an entry larger than the table, which empties it", all(newField, longField, octets(0xbe))),
  [
    "4.4",
    "a new entry with the name of one that it evicts",
    block(all(integer(34, 5, 0x20), head, newField, octets(0x7e), text("z"), octets(0x80 + 62))),
    "none",
  ],
  hpackRow("5.1", "an integer with octets of zeros", octets(0x3f, 0x80, 0x80, 0x00), true),
  hpackRow("5.1", "an integer that does not end", octets(0xff, 0x80, 0x80)),
  hpackRow("5.1", "an integer of five octets", octets(0x7f, 0x80, 0x80, 0x80, 0x80, 0x01, 0x00)),
  hpackRow("5.1", "an integer beyond 32 bits", octets(0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f)),
  hpackRow("5.2", "a name that ends too early", octets(0x00, 0x03, 0x61)),
  hpackRow("5.2", "a value that ends too early", octets(0x00, 0x01, 0x61, 0x05, 0x61)),
  hpackRow("5.2", "a name without a value", octets(0x00, 0x01, 0x61)),
  hpackRow("5.2", "a value without its length", octets(0x04)),
  hpackRow("5.2", "Huffman padding of zeros", octets(0x00, 0x01, 0x61, 0x81, 0x18)),
  hpackRow("5.2", "Huffman padding of eight bits", octets(0x00, 0x01, 0x61, 0x82, 0x1f, 0xff)),
  hpackRow("5.2", "Huffman padding alone", octets(0x00, 0x01, 0x61, 0x81, 0xff)),
  hpackRow("5.2", "a Huffman text with EOS", octets(0x00, 0x01, 0x61, 0x84, 0xff, 0xff, 0xff, 0xff)),
  hpackRow("5.2", "a Huffman text that ends within a code", octets(0x00, 0x01, 0x61, 0x82, 0xff, 0xc0)),
  hpackRow("6.1", "index 0", octets(0x80)),
  hpackRow("6.2.1", "a name that is not in the table", all(integer(62, 6, 0x40), text("x"))),
  hpackRow("6.2.2", "a name that is not in the table, without indexing", all(integer(62, 4, 0x00), text("x"))),
  hpackRow("6.2.3", "a name that is not in the table, never indexed", all(integer(62, 4, 0x10), text("x"))),
  hpackRow("6.3", "a table of 4,097 bytes", integer(4097, 5, 0x20)),
  hpackRow("6.3", "a table of 4,096 bytes", integer(4096, 5, 0x20), true),
];

export const rules: readonly Rule[] = [
  ...frameRules,
  ...streamStates,
  ...frameTypeRules,
  ...fieldRules,
  ...messageRules,
  ...hpackRules.map(([section, ...rest]): Rule => [`RFC 7541, ${section}`, ...rest]),
];
