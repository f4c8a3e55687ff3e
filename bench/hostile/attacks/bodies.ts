// Request bodies over HTTP/1.1 that cost more than their bytes.
import { type Attack, type Carrier, text } from "../attack.ts";
import { again, type StreamOptions, stream } from "../stream.ts";
import { chunkedPost, fieldLines, repeated, requestHead } from "./requests.ts";

const manyChunks = repeated("1\r\nx\r\n", 340);

function upload(name: string, what: string, piece: Buffer, more: Partial<StreamOptions> = {}): Attack {
  const options = { prelude: chunkedPost(), preludeRequests: 1, next: again(piece), ...more };
  return { name, carrier: "http1", what, send: stream(options) };
}

/** A POST in one piece, again and again. */
function posts(name: string, what: string, request: Buffer, more: Partial<StreamOptions> = {}): Attack {
  const carrier: Carrier = "http1";
  return { name, carrier, what, send: stream({ next: again(request), requests: 1, ...more }) };
}

const emptyChunked = (trailers: string): Buffer => Buffer.concat([chunkedPost(), text(`0\r\n${trailers}\r\n`)]);

export const bodies: readonly Attack[] = [
  upload("chunks-1-byte", "an upload in chunks of one byte", manyChunks),
  upload("chunks-1-byte-unread", "20 of them, the upstream does not read", manyChunks, {
    connections: 20,
    prelude: chunkedPost("/v1/never"),
    bytesPerSecond: 10_000_000,
  }),
  upload("chunks-16-byte", "an upload in chunks of 16 bytes", repeated(`10\r\n${"x".repeat(16)}\r\n`, 90)),
  upload(
    "chunks-sizes-of-zeros",
    "one-byte chunks whose sizes begin with 15 zeros",
    repeated(`${"0".repeat(15)}1\r\nx\r\n`, 90),
  ),
  upload("chunk-extensions-small", "one-byte chunks, each with an extension", repeated("1;a=b\r\nx\r\n", 200)),
  upload(
    "chunk-extensions-large",
    "one-byte chunks, each with an extension of 8 KB",
    text(`1;${"a=b;".repeat(2000)}\r\nx\r\n`),
  ),
  upload("chunk-extension-endless", "one chunk whose extension does not end", Buffer.alloc(1400, "a"), {
    prelude: Buffer.concat([chunkedPost(), text("1;")]),
  }),
  upload("chunks-1-byte-packets", "an upload in packets of one byte", manyChunks, { packetBytes: 1 }),
  upload("body-1-byte-packets", "an upload with a length, in packets of one byte", Buffer.alloc(1000, "x"), {
    prelude: requestHead("POST", "/v1/ok", "Content-Length: 10000000\r\n"),
    packetBytes: 1,
  }),
  upload("uploads-unread", "50 uploads, the upstream does not read", Buffer.alloc(16_000, "x"), {
    connections: 50,
    prelude: requestHead("POST", "/v1/never", "Content-Length: 10000000\r\n"),
    bytesPerSecond: 50_000_000,
  }),
  {
    name: "posts-trickle",
    carrier: "http1",
    what: "100 POSTs at 17 KiB/s each, before an upstream with 64 connections",
    keys: { upstream: { maxConnections: 64 } },
    send: stream({
      connections: 100,
      prelude: requestHead("POST", "/v1/ok", "Content-Length: 1000000\r\n"),
      preludeRequests: 1,
      next: again(Buffer.alloc(1408, "x")),
      bytesPerSecond: 1_740_000,
    }),
  },
  posts("trailers-many", "a thousand trailers", emptyChunked(fieldLines(1000))),
  posts("trailers-tiny", "16 KB of the shortest trailers", emptyChunked("a:\r\n".repeat(3900))),
  upload("trailers-endless", "trailers that do not end", text(fieldLines(100)), {
    prelude: Buffer.concat([chunkedPost(), text("0\r\n")]),
  }),
  posts(
    "posts-tiny",
    "POSTs with a body of one byte",
    Buffer.concat([requestHead("POST", "/v1/ok", "Content-Length: 1\r\n"), text("x")]),
    {
      connections: 8,
      bytesPerSecond: 500_000,
    },
  ),
  upload("expect-continue", "900 times Expect: 100-continue, and no body", Buffer.alloc(0), {
    connections: 900,
    prelude: requestHead("POST", "/v1/ok", "Expect: 100-continue\r\nContent-Length: 10\r\n"),
    next: () => null,
  }),
  posts(
    "length-and-chunks",
    "Content-Length beside Transfer-Encoding",
    Buffer.concat([chunkedPost("/v1/ok", "Content-Length: 5\r\n"), text("0\r\n\r\n")]),
    {
      connections: 8,
      bytesPerSecond: 300_000,
    },
  ),
  posts(
    "length-list",
    "8 KB of the same Content-Length",
    requestHead("POST", "/v1/ok", `Content-Length: ${"0,".repeat(4000)}0\r\n`),
  ),
  posts(
    "encoding-list",
    "8 KB of empty transfer codings",
    requestHead("POST", "/v1/ok", `Transfer-Encoding: ${",".repeat(8000)}chunked\r\n`),
  ),
  posts(
    "body-too-large",
    "a body whose length is over the limit",
    requestHead("POST", "/v1/ok", "Content-Length: 99999999999\r\n"),
    {
      connections: 8,
      bytesPerSecond: 300_000,
    },
  ),
];
