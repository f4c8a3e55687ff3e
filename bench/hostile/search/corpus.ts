// Inputs that once cost too much, by class. Every search begins with them, so a defect that comes back is found at once.
import { preface } from "./http2-class.ts";
import { type ContentPart, frame, frameTypes, type Input, type Part, sized, text } from "./input.ts";
import { grpcCall } from "./other-classes.ts";

const fields = "HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n";
const whole = (...parts: readonly Part[]): Input => ({ parts, pieceBytes: 0 });

/** 4,000 bytes of the dynamic table that each reference repeats, with one that is forbidden. */
const droppedField: ContentPart = sized("hpack", "\x40\x01a", [text("x", 4000), text("\0")]);
const getHead: readonly ContentPart[] = [text("\x82\x87\x41\x01a"), sized("hpack", "\x04", "/v1/x")];
const postHead: readonly ContentPart[] = [text("\x83\x87\x41\x01a"), sized("hpack", "\x04", "/v1/x")];

const http1: readonly Input[] = [
  // Every reading of the path, for every route.
  whole(text("GET "), text("/\\%252525252f%5c;a%2f", 390), text(` ${fields}\r\n`)),
  // Node parses all that is in one read, also what is dropped.
  whole(text("GET / HTTP/1.1\r\n\r\n", 900)),
  whole(
    text(`POST /v1/x ${fields}Transfer-Encoding: chunked\r\n\r\n`),
    sized("chunk", "", "x", 2600),
    text("0\r\n\r\n"),
  ),
  whole(text(`GET /v1/x ${fields}Connection: upgrade\r\nUpgrade: `), text(",", 16_000), text("\r\n\r\n")),
  whole(text(`GET /v1/x ${fields}`), text("a:\r\n", 4000), text("\r\n")),
  // What is behind a request that is refused without closing the connection.
  whole(text("GET /none HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n"), text("GET / HTTP/1.1\r\n\r\n", 900)),
];

const http2: readonly Input[] = [
  whole(...preface, frame(frameTypes.headers, 5, "next", [...getHead, droppedField, text("\xbe", 12_000)])),
  whole(
    ...preface,
    frame(frameTypes.headers, 0, "next", [...getHead, droppedField]),
    frame(frameTypes.continuation, 0, "same", [text("\xbe", 1000)], 11),
    frame(frameTypes.continuation, 4, "same"),
  ),
  whole(...preface, frame(frameTypes.headers, 4, "next", postHead), frame(frameTypes.data, 0, "same", "x", 1600)),
  whole(...preface, frame(frameTypes.ping, 0, 0, "12345678", 950)),
  // Node makes an error of each ACK of a PING that it has not sent.
  whole(...preface, frame(frameTypes.headers, 5, "next", getHead), frame(frameTypes.ping, 1, 0, "12345678", 950)),
  whole(...preface, frame(frameTypes.headers, 5, "next", getHead, 100), frame(frameTypes.settings, 0, 0, "", 1000)),
];

const response: readonly Input[] = [
  { parts: [text("HTTP/1.1 200 OK\r\n"), text("a:\r\n", 4000), text("\r\n")], pieceBytes: 1 },
  whole(
    text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
    sized("chunk", "", "x", 2600),
    text("0\r\n\r\n"),
  ),
  whole(text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), text("0", 16_000), text("x\r\n")),
];

const hostField = sized("protobuf", "\x1a", [sized("protobuf", "\x0a", "host")], 1900);

export const corpus: Readonly<Record<string, readonly Input[]>> = {
  http1,
  "http1 without quota": http1,
  "http1 over tls": http1,
  http2,
  "http2 without quota": http2,
  "proxy header": [
    whole(text(`PROXY UNKNOWN\r\nGET /v1/x ${fields}X-Forwarded-For: `), text("127.0.0.1,", 1600), text("\r\n\r\n")),
    { parts: [text("\r\n\r\n\0\r\nQUIT\n\x21\x11\x10\0"), text("\0", 4096)], pieceBytes: 1 },
  ],
  response,
  "response to http2": response,
  "check over http": [
    whole(
      text("GET /ext-authz"),
      text("/\\%252525252f%5c;a%2f", 740),
      text(` ${fields}X-Forwarded-For: 10.100.100.100\r\n\r\n`),
    ),
    whole(text("GET / HTTP/1.1\r\n\r\n", 900), text("x")),
  ],
  "check over grpc": [
    whole(
      ...preface,
      ...grpcCall("/envoy.service.auth.v3.Authorization/Check", [
        sized("protobuf", "\x0a", [
          sized("protobuf", "\x0a", [
            sized("protobuf", "\x0a", [sized("protobuf", "\x0a", [sized("protobuf", "\x12", "10.100.100.100")])]),
          ]),
          sized("protobuf", "\x22", [sized("protobuf", "\x12", [hostField])]),
        ]),
      ]),
    ),
    ...http2,
  ],
  admin: [whole(text("GET / HTTP/1.1\r\n\r\n", 900))],
};
