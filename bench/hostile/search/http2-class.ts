// Seeds and tokens of HTTP/2, with header blocks as raw HPACK (RFC 7541), so that references to the table can be
// multiplied.
import { bytesOf, type ContentPart, frame, frameTypes, type Part, sized, text } from "./input.ts";
import type { Dictionary } from "./mutate.ts";

const { data, headers, priority, reset, settings, ping, goAway, window, continuation } = frameTypes;
const endStream = 1;
const endHeaders = 4;

export const preface = [text("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(settings, 0, 0)] as const;

/** Literals: of an indexed name, and with a new name into the table. */
const value = (lead: string, of: string): ContentPart => sized("hpack", lead, of);
const field = (name: string, of: string): ContentPart => sized("hpack", sizedName("\x40", name), of);
const sizedName = (lead: string, name: string): string => lead + String.fromCharCode(name.length) + name;

const method = { get: text("\x82"), post: text("\x83") };
const https = text("\x87");
/** Of `:authority`, `:path` and `authorization` in the static table. */
const authority = value("\x01", "a");
const path = (of: string): ContentPart => value("\x04", of);
const authorization = value("\x0f\x08", "Bearer t");
const contentLength = (bytes: number): ContentPart => value("\x0f\x0d", String(bytes));

const get = (target = "/v1/x"): ContentPart[] => [method.get, https, authority, path(target), authorization];
const post: ContentPart[] = [method.post, https, authority, path("/v1/x"), authorization];

export const http2Dictionary: Dictionary = {
  outer: [
    frame(headers, endHeaders | endStream, "next", get()),
    frame(headers, endHeaders | endStream, "next", [method.get, https, authority, path("/none")]),
    frame(headers, endHeaders, "next", post),
    frame(headers, 0, "next", get()),
    frame(headers, endHeaders | endStream, "same", [field("t", "1")]),
    frame(continuation, endHeaders, "same", [field("x", "y")]),
    frame(continuation, 0, "same"),
    frame(data, 0, "same", "x"),
    frame(data, 0, "same"),
    frame(data, endStream, "same", "x"),
    frame(data, 8, "same", "\0x"),
    frame(reset, 0, "same", bytesOf(8, 4)),
    frame(settings, 0, 0),
    frame(settings, 0, 0, bytesOf(4, 2) + bytesOf(0, 4)),
    frame(settings, 0, 0, bytesOf(4, 2) + bytesOf(1, 4)),
    frame(settings, 0, 0, bytesOf(1, 2) + bytesOf(0, 4)),
    frame(settings, 1, 0),
    frame(ping, 0, 0, "12345678"),
    frame(window, 0, 0, bytesOf(1, 4)),
    frame(window, 0, "same", bytesOf(1, 4)),
    frame(priority, 0, "next", bytesOf(0, 5)),
    frame(priority, 0, "same", bytesOf(0, 5)),
    frame(0x10, 0, 0, `${bytesOf(1, 4)}u=1`),
    frame(0x20, 0, 0, "x"),
    frame(goAway, 0, 0, bytesOf(0, 8)),
  ],
  inner: [
    ...[
      method.get,
      method.post,
      https,
      authority,
      path("/"),
      path("/\\%252525252f%5c;a"),
      authorization,
      contentLength(1),
    ],
    ...[field("x", "y"), field("a", "\0"), field("cookie", "a=b"), field("host", "a"), field("te", "trailers")],
    ...[
      value("\x40\x01a", "b"),
      value("\x00\x01a", "b"),
      value("\x10\x01a", "b"),
      value("\x60", "a=b"),
      field("x_y", "z"),
    ],
    ...[
      field("connection", "x"),
      field("upgrade", "h2c"),
      field("content-length", "1"),
      field("X", "y"),
      field("", ""),
    ],
    ...["\xbe", "\xbf", "\xc0", "\xc1", "\x80", "\x81", "\x90", "\xff\x00", "\x20", "\x3f\xe1\x1f", "\x3f\x00"].map(
      (b) => text(b),
    ),
    ...["\x40\x81\x00\x81\x00", "\x00", "\x01", "\x7f", "\xff", "a", "x", "0", "\r\n", " ", ":", "/", "%2f", ";"].map(
      (b) => text(b),
    ),
    sized("hpack", "\x40\x01a", [text("x", 4000)]),
    sized("hpack", "\x40\x01a", [text("x", 4000), text("\0")]),
    sized("hpack", "\x00\x01a", [text("x", 1000)]),
  ],
};

export const http2Seeds: readonly (readonly Part[])[] = [
  [...preface, frame(headers, endHeaders | endStream, "next", get())],
  [...preface, frame(headers, endHeaders | endStream, "next", [...get(), field("x", "y"), text("\xbe", 3)])],
  [...preface, frame(headers, endHeaders | endStream, "next", get("/none"), 5)],
  [
    ...preface,
    frame(headers, endHeaders, "next", post),
    frame(data, 0, "same", "abc", 3),
    frame(data, endStream, "same"),
  ],
  [...preface, frame(headers, 0, "next", get()), frame(continuation, endHeaders, "same", [field("x", "y")])],
  [...preface, frame(headers, endHeaders, "next", get()), frame(reset, 0, "same", bytesOf(8, 4))],
  [...preface, frame(ping, 0, 0, "12345678"), frame(settings, 0, 0), frame(window, 0, 0, bytesOf(1, 4))],
];

/** As many bytes of an ordinary request, the preface left out. */
export function ordinaryStream(bytes: number): Part[] {
  const body = bytes - 80;
  if (body <= 0) return [...preface, frame(headers, endHeaders | endStream, "next", get())];
  const pieces = Math.ceil(body / 16_000);
  const piece = "x".repeat(Math.floor(body / pieces));
  return [
    ...preface,
    frame(headers, endHeaders, "next", post),
    frame(data, 0, "same", piece, pieces),
    frame(data, endStream, "same"),
  ];
}
