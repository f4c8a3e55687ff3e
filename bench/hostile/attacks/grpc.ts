// Checks over gRPC: messages of a trusted caller that are costly to read, and what a stranger (an untrusted caller)
// holds.
import { type Attack, text } from "../attack.ts";
import { again, type StreamOptions, stream } from "../stream.ts";
import { checkCall, checkHeaders, framed, part, textPart, varint } from "./grpc-messages.ts";
import { oddTarget } from "./heads.ts";
import { flags, frame, hasGoaway, headers, literals, preface, streamOf, types, withStream } from "./http2-bytes.ts";
import { repeated } from "./requests.ts";

export const stranger = "127.0.0.10";
const authorization = "/envoy.service.auth.v3.Authorization/Check";
const rateLimit = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
export const healthCheck = "/grpc.health.v1.Health/Check";
const healthWatch = "/grpc.health.v1.Health/Watch";

export function callHead(path: string): Buffer {
  return headers(
    1,
    literals([
      [":method", "POST"],
      [":scheme", "http"],
      [":authority", "gateway"],
      [":path", path],
      ["content-type", "application/grpc"],
      ["te", "trailers"],
    ]),
    flags.none,
  );
}

/** The message in DATA frames of 16 KiB, the last of which ends the stream. */
function data(message: Buffer): Buffer {
  const frames: Buffer[] = [];
  for (let at = 0; at < message.length; at += 16_384) {
    const isLast = at + 16_384 >= message.length;
    frames.push(frame(types.data, isLast ? flags.endStream : 0, 1, message.subarray(at, at + 16_384)));
  }
  return Buffer.concat(frames);
}

function grpc(name: string, what: string, options: StreamOptions): Attack {
  return {
    name,
    carrier: "grpc",
    what,
    send: stream({ port: "grpc", prelude: preface(), leavesOn: hasGoaway, ...options }),
  };
}

function calls(name: string, what: string, path: string, message: Buffer, more: Partial<StreamOptions> = {}): Attack {
  const whole = Buffer.concat([callHead(path), data(message)]);
  return grpc(name, what, { connections: 4, next: (i) => withStream(whole, streamOf(i)), requests: 1, ...more });
}

/** Nested groups of field 15, none of which ends. */
const groups = framed(Buffer.alloc(16_000, 15 * 8 + 3));
const openGroups = framed(Buffer.concat([Buffer.alloc(8000, 15 * 8 + 3), Buffer.alloc(8000, 15 * 8 + 4)]));
const descriptor = part(2, part(1, textPart(1, "remote_address"), textPart(2, "192.0.2.7")));

/** Calls that stay open, each with the beginning of a message. */
const pieces = Buffer.concat(
  Array.from({ length: 100 }, (_, n) =>
    withStream(Buffer.concat([callHead(healthCheck), frame(types.data, 0, 1, Buffer.from([0, 0, 0, 4]))]), streamOf(n)),
  ),
);
const bytePiece = Buffer.concat([
  frame(types.data, 0, 1, Buffer.from([0])),
  frame(types.unknown, 0, 0, Buffer.alloc(16_384)),
]);

export const grpcAttacks: readonly Attack[] = [
  calls("grpc-headers-many", "checks with 10,000 headers", authorization, checkCall(checkHeaders(10_000))),
  calls("grpc-headers-190", "checks with 190 headers", authorization, checkCall(checkHeaders(190, "x".repeat(60)))),
  calls("grpc-target-odd", "checks of 8 KB targets", authorization, checkCall(checkHeaders(3), oddTarget)),
  calls(
    "grpc-headers-empty",
    "checks with 7,500 empty headers",
    authorization,
    checkCall(repeated(Buffer.from([0x1a, 0]), 7500)),
  ),
  calls("grpc-groups", "16,000 groups within each other", authorization, groups),
  calls("grpc-groups-closed", "8,000 groups within each other, closed", authorization, openGroups),
  calls(
    "grpc-unknown-fields",
    "16 KB of unknown fields",
    authorization,
    framed(repeated(Buffer.from([0x78, 1]), 8000)),
  ),
  calls(
    "grpc-varints-long",
    "numbers of ten bytes",
    authorization,
    framed(repeated(Buffer.concat([varint(0x78), Buffer.alloc(9, 0xff), Buffer.from([1])]), 1400)),
  ),
  calls(
    "grpc-source-repeated",
    "a check whose source is named 4,000 times",
    authorization,
    framed(part(1, repeated(part(1, textPart(2, "x")), 3000))),
  ),
  calls(
    "grpc-descriptors",
    "rate limit requests with 600 descriptors",
    rateLimit,
    framed(Buffer.concat([textPart(1, "headgate"), repeated(descriptor, 600)])),
  ),
  calls(
    "grpc-garbage",
    "messages of random bytes",
    authorization,
    framed(Buffer.from(Array.from({ length: 8000 }, (_, i) => (i * 7919 + (i >> 5)) & 255))),
  ),
  calls("grpc-message-too-large", "messages that announce 4 GiB", authorization, Buffer.from([0, 255, 255, 255, 255]), {
    bytesPerSecond: 300_000,
  }),
  grpc("grpc-data-1-byte", "a message of 200 KB in DATA frames of one byte", {
    connections: 2,
    prelude: Buffer.concat([preface(), callHead(authorization), frame(types.data, 0, 1, Buffer.from([0, 0, 3, 0, 0]))]),
    preludeRequests: 1,
    next: again(repeated(frame(types.data, 0, 1, "x"), 140)),
  }),
  grpc("grpc-pieces-stranger", "a stranger's pieces of health checks between unknown frames of 16 KiB", {
    localAddress: stranger,
    connections: 4,
    prelude: Buffer.concat([preface(), pieces]),
    preludeRequests: 100,
    next: (i) => withStreamOfData(bytePiece, streamOf(i % 100)),
    bytesPerSecond: 200_000_000,
  }),
  grpc("grpc-watches", "100 watches on each of 10 connections", {
    connections: 10,
    prelude: Buffer.concat([
      preface(),
      ...Array.from({ length: 100 }, (_, n) =>
        withStream(Buffer.concat([callHead(healthWatch), data(framed(Buffer.alloc(0)))]), streamOf(n)),
      ),
    ]),
    preludeRequests: 100,
    next: () => null,
  }),
  calls("grpc-health-stranger", "health checks of a stranger", healthCheck, framed(Buffer.alloc(0)), {
    localAddress: stranger,
    bytesPerSecond: 300_000,
  }),
  calls("grpc-untrusted", "checks of a stranger", authorization, checkCall(checkHeaders(3)), {
    localAddress: stranger,
    bytesPerSecond: 300_000,
  }),
  grpc("grpc-pings", "PING from a stranger", {
    localAddress: stranger,
    next: again(repeated(frame(types.ping, 0, 0, Buffer.alloc(8)), 80)),
  }),
  grpc("grpc-idle-stranger", "256 idle connections of a stranger", {
    localAddress: stranger,
    connections: 256,
    prelude: text("PRI"),
    next: () => null,
    bytesPerSecond: 300_000,
  }),
];

/** Sends the first frame on another stream; the unknown frame stays on stream 0. */
function withStreamOfData(frames: Buffer, stream: number): Buffer {
  const copy = Buffer.from(frames);
  copy.writeUInt32BE(stream, 5);
  return copy;
}
