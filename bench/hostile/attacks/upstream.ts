// A hostile or careless upstream: responses that cost more than their bytes. The attacker is the upstream; the requests
// for them are ordinary.
import { type Attack, type HostileAnswer, text } from "../attack.ts";
import { again, stream } from "../stream.ts";
import { fieldLines, get, repeated } from "./requests.ts";

interface Options {
  readonly packetBytes?: number;
  readonly bytesPerSecond?: number;
  /** Requests within the time; those of one client are bounded by its quota. */
  readonly requests?: number;
  /** What follows the head, until null. */
  readonly next?: (i: number) => Buffer | null;
}

/** Each request is sent on a connection of its own. */
function responses(name: string, what: string, head: Buffer, options: Options = {}): Attack {
  const { requests = 40, packetBytes, bytesPerSecond, next = () => null } = options;
  const pace = {
    ...(packetBytes === undefined ? {} : { packetBytes }),
    ...(bytesPerSecond === undefined ? {} : { bytesPerSecond }),
  };
  const send = stream({
    connections: Math.min(requests, 8),
    next: (i) => (i === 0 ? get(`/v1/hostile/${name}`, "Connection: close\r\n") : null),
    requests: 1,
    bytesPerSecond: 20_000,
  });
  const respond = (answer: HostileAnswer): void =>
    void answer.pour((i) => (i === 0 ? head : next(i - 1)), pace).then(() => answer.socket.end());
  return { name, carrier: "upstream", what, send, respond };
}

/** The upstream announces that it closes each connection; otherwise the gateway would reuse one that is closing. */
const ok = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
const chunked = text(`${ok}Transfer-Encoding: chunked\r\n\r\n`);
const body = (count: number): Buffer => Buffer.alloc(count, "x");
/** Its connection stays open. */
const spare = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
const withBody = (fields: string): Buffer => text(`${ok}${fields}Content-Length: 2\r\n\r\nok`);
const once = { requests: 1 };

export const upstreamAttacks: readonly Attack[] = [
  responses("answer-chunks-1-byte", "chunks of one byte", chunked, {
    ...once,
    next: again(repeated("1\r\nx\r\n", 340)),
  }),
  responses("answer-chunk-extensions", "one-byte chunks with extensions of 1 KB", chunked, {
    ...once,
    next: again(text(`1;${"a=b;".repeat(250)}\r\nx\r\n`)),
  }),
  responses("answer-chunks-1-byte-packets", "chunks in packets of one byte", chunked, {
    ...once,
    next: again(repeated("1\r\nx\r\n", 340)),
    packetBytes: 1,
  }),
  responses(
    "answer-body-1-byte-packets",
    "a body in packets of one byte",
    text(`${ok}Content-Length: 10000000\r\n\r\n`),
    { ...once, next: again(body(1000)), packetBytes: 1 },
  ),
  responses("answer-until-close-1-byte-packets", "the same without a length", text(`${ok}\r\n`), {
    ...once,
    next: again(body(1000)),
    packetBytes: 1,
  }),
  responses(
    "answer-head-1-byte-packets",
    "heads of 15 KB in packets of one byte",
    withBody(`X-Long: ${"x".repeat(15_000)}\r\n`),
    { packetBytes: 1, requests: 4 },
  ),
  responses(
    "answer-head-fields-1-byte-packets",
    "heads of 190 fields in packets of one byte",
    withBody(fieldLines(190, "x".repeat(60))),
    { packetBytes: 1, requests: 4 },
  ),
  responses("answer-head-endless", "a head that does not end", text(ok), {
    next: again(text(fieldLines(10, "x".repeat(60)))),
  }),
  responses("answer-fields-shortest", "16 KB of the shortest fields", withBody("a:\r\n".repeat(3900))),
  responses("answer-fields-same-name", "190 Set-Cookie", withBody(`Set-Cookie: a=${"b".repeat(60)}\r\n`.repeat(190))),
  responses(
    "answer-connection-options",
    "8 KB of connection options beside 180 fields",
    withBody(
      `Connection: ${Array.from({ length: 1600 }, (_, i) => `x${i.toString(36)}`).join(",")}\r\n${fieldLines(180)}`,
    ),
  ),
  responses("answer-interim-many", "103 without end", text("HTTP/1.1 103 Early Hints\r\n\r\n"), {
    ...once,
    next: again(repeated("HTTP/1.1 103 Early Hints\r\n\r\n", 50)),
  }),
  responses("answer-interim-large", "103 with 14 KB of fields, without end", text("HTTP/1.1 103 Early Hints\r\n\r\n"), {
    ...once,
    next: again(text(`HTTP/1.1 103 Early Hints\r\n${fieldLines(190, "x".repeat(60))}\r\n`)),
  }),
  responses("answer-trailers-endless", "trailers that do not end", Buffer.concat([chunked, text("0\r\n")]), {
    next: again(text(fieldLines(50))),
  }),
  responses(
    "answer-trailers-1-byte-packets",
    "15 KB of trailers in packets of one byte",
    Buffer.concat([chunked, text("0\r\n"), text("a: b\r\n".repeat(2500)), text("\r\n")]),
    { packetBytes: 1, requests: 4 },
  ),
  responses("answer-spare-bytes", "a second response that nobody asked for", text(`${spare}ok${spare}no`)),
  responses(
    "answer-garbage",
    "random bytes",
    Buffer.from(Array.from({ length: 4000 }, (_, i) => (i * 7919 + (i >> 3)) & 255)),
  ),
  responses(
    "answer-chunk-size-long",
    "a chunk size of 15 KB of zeros",
    Buffer.concat([chunked, text("0".repeat(15_000))]),
  ),
  responses(
    "answer-chunk-size-1-byte-packets",
    "the same in packets of one byte",
    Buffer.concat([chunked, text("0".repeat(15_000))]),
    { packetBytes: 1, requests: 4 },
  ),
];
