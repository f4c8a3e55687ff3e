// HTTP/2 as the endings need it: bytes of requests and calls on stream 1, and frames that a connection does not survive.

import { check } from "../../ext-auth/grpc/protocol.ts";
import { checkRequest } from "../../ext-auth/grpc/requests.ts";
import {
  code,
  endHeaders,
  endStream,
  type Fields,
  frame,
  frameTypes,
  get,
  integer,
  literals,
  text,
} from "../../support/http2-frames.ts";
import type { Carrier } from "./carrier.ts";
import { type Peer, ways } from "./peer.ts";

const { data, headers, rstStream, settings, ping, goaway, windowUpdate, continuation } = frameTypes;
const preface = Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(settings, 0, 0)]);

/** The end of stream 1, or a GOAWAY. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: frames
const ended = /(?:\0\x01|\x01\x05|\x03\0)\0\0\0\x01|\x07\0\0\0\0\0/;

const all = (...frames: readonly Buffer[]): Buffer => Buffer.concat(frames);
const many = (count: number, one: Buffer): Buffer => Buffer.concat(Array(count).fill(one));
const head = (fields: Fields, flags = endHeaders, stream = 1): Buffer =>
  frame(headers, flags, stream, literals(fields));
const whole = endHeaders | endStream;
const post = (target: string): Fields => [[":method", "POST"], ...get(target).slice(1)];

export const http2: Carrier = {
  prelude: async (peer) => peer.send(preface),
  request: (target) => head(get(target), whole),
  upload: (target) => all(head(post(target)), frame(data, 0, 1, "part")),
  partOfHead: frame(headers, endStream, 1, literals(get())),
  last: (target) => head(get(target), whole),
  finish: async (peer) => {
    await peer.answer((received) => ended.test(received));
    peer.socket.end();
    await peer.closed();
  },
};

const call = (path: string): Fields => [
  [":method", "POST"],
  [":scheme", "http"],
  [":authority", "headgate"],
  [":path", path],
  ["content-type", "application/grpc"],
  ["te", "trailers"],
];
const message = check.requestSerialize(checkRequest({}, "127.0.0.1"));
const checkHead = head(call(check.path));
const prefixed = (bytes: Buffer): Buffer => all(Buffer.of(0), code(bytes.length), bytes);

export const grpc: Carrier = {
  ...http2,
  request: () => all(checkHead, frame(data, endStream, 1, prefixed(message))),
  upload: () => all(checkHead, frame(data, 0, 1, prefixed(message).subarray(0, 20))),
  partOfHead: frame(headers, 0, 1, literals(call(check.path))),
  last: () => all(checkHead, frame(data, endStream, 1, prefixed(message))),
};
/** Answered once, and then again when the health changes. */
export const watch = all(
  head(call("/grpc.health.v1.Health/Watch")),
  frame(data, endStream, 1, prefixed(Buffer.alloc(0))),
);

export const grpcRefusals: Readonly<Record<string, Buffer>> = {
  "not gRPC": head(get(), whole),
  "an unknown method": head(call("/none/None"), whole),
  "no message": head(call(check.path), whole),
  "a message too large": all(checkHead, frame(data, 0, 1, all(Buffer.of(0), code(2 ** 30)))),
  "half a message": all(checkHead, frame(data, endStream, 1, prefixed(message).subarray(0, 20))),
  "a message that is none": all(checkHead, frame(data, endStream, 1, prefixed(Buffer.alloc(50, 0xff)))),
  "a deadline of 20 ms": all(
    head([...call(check.path), ["grpc-timeout", "20m"]]),
    frame(data, 0, 1, prefixed(message).subarray(0, 20)),
  ),
};

/** The client ends the stream or the session, and then the connection. */
export const http2Ways = {
  ...ways,
  "resets its stream": (peer: Peer) => {
    peer.send(frame(rstStream, 0, 1, code(8)));
    return ways["ends its side"](peer);
  },
  "says that it goes away": (peer: Peer) => {
    peer.send(frame(goaway, 0, 0, Buffer.alloc(8)));
    return ways["ends its side"](peer);
  },
  "says that it goes away with an error": (peer: Peer) => {
    peer.send(frame(goaway, 0, 0, all(code(0), code(2))));
    return ways["ends its side"](peer);
  },
};

/** The connection has requests in progress, if `open` is a head without an end. Each ends it, or leaves it idle. */
export function violations(open: Fields): Readonly<Record<string, Buffer>> {
  const begun = frame(headers, 0, 1, literals(open));
  const request = head(open);
  const entry = all(Buffer.of(0x40), text("x"), text("y".repeat(4_000)));
  return {
    "empty CONTINUATION frames without end": all(begun, many(300, frame(continuation, 0, 1))),
    "CONTINUATION frames of a byte without end": all(begun, many(300, frame(continuation, 0, 1, "\0"))),
    "full CONTINUATION frames without end": all(begun, many(16, frame(continuation, 0, 1, field(16_000)))),
    "another frame in a head": all(begun, frame(ping, 0, 0, Buffer.alloc(8))),
    "a head that is not HPACK": all(request, frame(headers, whole, 3, Buffer.of(0xff, 0))),
    "a head that decodes to megabytes": frame(
      headers,
      whole,
      1,
      all(entry, Buffer.alloc(10_000, integer(62, 7, 0x80))),
    ),
    "a head too large": all(begun, frame(continuation, endHeaders, 1, field(15_000)), many(3, request)),
    "a flood of PING": all(request, many(5_000, frame(ping, 0, 0, Buffer.alloc(8)))),
    "a flood of SETTINGS": all(request, many(1_000, frame(settings, 0, 0))),
    "a flood of empty DATA": all(request, many(5_000, frame(data, 0, 1))),
    "a flood of resets": Buffer.concat(
      Array.from({ length: 300 }, (_, i) =>
        all(head(open, endHeaders, 1 + 2 * i), frame(rstStream, 0, 1 + 2 * i, code(8))),
      ),
    ),
    "more streams than allowed": Buffer.concat(
      Array.from({ length: 110 }, (_, i) => head(open, endHeaders, 1 + 2 * i)),
    ),
    "a body longer than announced": all(head([...open, ["content-length", "1"]]), frame(data, 0, 1, "part")),
    "a body shorter than announced": all(head([...open, ["content-length", "9"]]), frame(data, endStream, 1, "part")),
    "a body, and trailers": all(request, frame(data, 0, 1, "part"), head([["x", "y"]], whole)),
    "DATA of no stream": all(request, frame(data, 0, 5, "part")),
    "a number of a stream of the server": head(open, endHeaders, 2),
    "an unknown pseudo-header": head([[":x", "y"], ...open]),
    "a frame too large": all(request, frame(data, 0, 1, Buffer.alloc(16_385))),
    "a PING too short": all(request, frame(ping, 0, 0, "1234567")),
    "SETTINGS that are wrong": all(request, frame(settings, 0, 0, all(Buffer.of(0, 4), code(2 ** 32 - 1)))),
    "a window of nothing more": all(request, frame(windowUpdate, 0, 0, code(0))),
    "a window too large": all(request, many(2, frame(windowUpdate, 0, 0, code(2 ** 31 - 1)))),
    "a stream's window too large": all(request, many(2, frame(windowUpdate, 0, 1, code(2 ** 31 - 1)))),
    "the preface a second time": all(request, preface),
    "half a frame": all(request, frame(data, 0, 1, "part").subarray(0, 11)),
    "no window for a response": all(
      frame(settings, 0, 0, all(Buffer.of(0, 4), code(0))),
      head([[":method", "GET"], ...open.slice(1)], whole),
    ),
  };
}

function field(bytes: number): Buffer {
  return all(Buffer.of(0), text("x"), text("y".repeat(bytes)));
}

export const upload = post("/v2/large");
export const openCall = call(check.path);
