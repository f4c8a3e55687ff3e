// Messages that two readers could take for different things, and the ones that have crashed or fooled proxies before: refused
// with the connection closed and nothing forwarded, or forwarded exactly as they are.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { within } from "../support/eventually.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { type RawUpstream, startRawUpstream, startUpstream, type TestUpstream } from "../support/upstream.ts";

const smuggled = "GET /v2/smuggled HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n";
const head = (fields: string, requestLine = "POST /v2/x HTTP/1.1"): string =>
  `${requestLine}\r\nHost: a\r\nAuthorization: Bearer t\r\n${fields}\r\n`;
const chunked = "Transfer-Encoding: chunked\r\n";
const chunks = (bytes: string): string => head(chunked) + bytes;
const many = (count: number): string => "X: y\r\n".repeat(count);

/** Refused whole: nothing of it may reach the upstream, and nothing behind it either. */
const refusedHeads: readonly (readonly [name: string, status: number, bytes: string])[] = [
  ["length, then encoding", 400, `${head(`Content-Length: 4\r\n${chunked}`)}0\r\n\r\n`],
  ["encoding, then length", 400, `${head(`${chunked}Content-Length: 4\r\n`)}0\r\n\r\n`],
  ["two different lengths", 400, `${head("Content-Length: 2\r\nContent-Length: 3\r\n")}abc`],
  ["the same length twice", 400, `${head("Content-Length: 2\r\nContent-Length: 2\r\n")}ab`],
  ["a list of lengths", 400, `${head("Content-Length: 2, 2\r\n")}ab`],
  ["a negative length", 400, head("Content-Length: -1\r\n")],
  ["a signed length", 400, `${head("Content-Length: +2\r\n")}ab`],
  ["a hex length", 400, `${head("Content-Length: 0x2\r\n")}ab`],
  ["an empty length", 400, head("Content-Length: \r\n")],
  ["a length over 64 bits", 400, head("Content-Length: 99999999999999999999\r\n")],
  ["chunked in HTTP/1.0", 400, `${head(chunked, "POST /v2/x HTTP/1.0")}0\r\n\r\n`],
  ["chunked, identity", 400, `${head("Transfer-Encoding: chunked, identity\r\n")}0\r\n\r\n`],
  ["gzip, chunked", 501, `${head("Transfer-Encoding: gzip, chunked\r\n")}0\r\n\r\n`],
  ["chunked twice", 400, `${head(chunked + chunked)}0\r\n\r\n`],
  ["xchunked", 501, `${head("Transfer-Encoding: xchunked\r\n")}0\r\n\r\n`],
  ["chunked behind a vertical tab", 400, `${head("Transfer-Encoding: \vchunked\r\n")}0\r\n\r\n`],
  ["an empty encoding", 400, `${head("Transfer-Encoding: \r\n")}0\r\n\r\n`],
  ["a space before the colon", 400, `${head("Transfer-Encoding : chunked\r\n")}0\r\n\r\n`],
  ["a folded field", 400, head("X: a\r\n b\r\n")],
  ["a folded encoding", 400, `${head("Transfer-Encoding:\r\n chunked\r\n")}0\r\n\r\n`],
  ["a fold before the first field", 400, `GET /v2/x HTTP/1.1\r\n X: y\r\n${"Host: a\r\n\r\n"}`],
  ["bare LF between fields", 400, "GET /v2/x HTTP/1.1\nHost: a\nAuthorization: Bearer t\n\n"],
  ["bare LF inside a head", 400, head("A: b\nC: d\r\n")],
  ["bare CR in a value", 400, head("A: b\rC: d\r\n")],
  ["NUL in a value", 400, head("A: b\0c\r\n")],
  ["NUL in a name", 400, head("A\0: b\r\n")],
  ["a control byte in a value", 400, head("A: b\x01c\r\n")],
  ["a field without a name", 400, head(": b\r\n")],
  ["a field without a colon", 400, head("Ab\r\n")],
  ["a non-ASCII name", 400, head("\xc3\xa4: b\r\n")],
  ["an underscore in a name", 400, head("X_Forwarded_For: 1.2.3.4\r\n")],
  ["__proto__ as a name", 400, head("__proto__: x\r\n")],
  ["two Hosts", 400, head("Host: b\r\n")],
  ["two Hosts alike", 400, head("host: a\r\n")],
  ["an empty Host", 400, "GET /v2/x HTTP/1.1\r\nHost:\r\nAuthorization: Bearer t\r\n\r\n"],
  ["a Host with a user", 400, "GET /v2/x HTTP/1.1\r\nHost: u@a\r\nAuthorization: Bearer t\r\n\r\n"],
  ["a Host with a path", 400, "GET /v2/x HTTP/1.1\r\nHost: a/b\r\nAuthorization: Bearer t\r\n\r\n"],
  ["a space in the target", 400, head("", "GET /v2/x y HTTP/1.1")],
  ["NUL in the target", 400, head("", "GET /v2/\0 HTTP/1.1")],
  ["bytes over 127 in the target", 400, head("", "GET /v2/\xe4 HTTP/1.1")],
  ["HTTP/1.2", 400, head("", "GET /v2/x HTTP/1.2")],
  ["HTTP/2.0 in text", 400, head("", "GET /v2/x HTTP/2.0")],
  ["HTTP/0.9 with fields", 400, head("", "GET /v2/x HTTP/0.9")],
  ["HTTP/0.9", 400, "GET /v2/x\r\n"],
  ["authority form", 400, head("", "GET a:80 HTTP/1.1")],
  ["a target of another scheme", 400, head("", "GET ftp://a/v2/x HTTP/1.1")],
  ["201 fields", 431, head(many(199))],
  ["17 KiB of fields", 431, head(`X: ${"y".repeat(17 * 1024)}\r\n`)],
  ["TLS", 400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
];

/** The head is sound, so forwarding has begun: the upstream must see the request break off, never end. */
const brokenBodies: readonly (readonly [name: string, status: number, bytes: string])[] = [
  ["a chunk size that is no number", 400, chunks("zz\r\nhi\r\n")],
  ["a chunk size over 64 bits", 400, chunks("fffffffffffffffff\r\nhi\r\n")],
  ["a signed chunk size", 400, chunks("+2\r\nhi\r\n0\r\n\r\n")],
  ["a negative chunk size", 400, chunks("-2\r\nhi\r\n0\r\n\r\n")],
  ["an underscore in a chunk size", 400, chunks("1_0\r\n0123456789abcdef\r\n0\r\n\r\n")],
  ["a hex prefix", 400, chunks("0x2\r\nhi\r\n0\r\n\r\n")],
  ["a space before a chunk size", 400, chunks(" 2\r\nhi\r\n0\r\n\r\n")],
  ["an empty chunk size", 400, chunks("\r\n0\r\n\r\n")],
  ["bare LF behind a chunk size", 400, chunks("2\nhi\r\n0\r\n\r\n")],
  ["bare LF behind a chunk", 400, chunks("2\r\nhi\n0\r\n\r\n")],
  ["a chunk longer than its size", 400, chunks("2\r\nhi!\r\n0\r\n\r\n")],
  ["17 KiB of a chunk extension", 400, chunks(`2;x=${"y".repeat(17 * 1024)}\r\nhi\r\n0\r\n\r\n`)],
  ["a bare CR in a chunk extension", 400, chunks("2;x=\rb\r\nhi\r\n0\r\n\r\n")],
  ["17 KiB of trailers", 431, chunks(`2\r\nhi\r\n0\r\nX: ${"y".repeat(17 * 1024)}\r\n\r\n`)],
];

let upstream: RawUpstream;
let gateway: TestGateway;
const clients: RawConnection[] = [];
beforeAll(async () => {
  upstream = await startRawUpstream(() => {});
  const policies = [{ name: "per-ip", limit: 10_000, windowMs: 60_000, maxClients: 10 }] as const;
  gateway = await startTestGateway({ upstreamUrl: upstream.url, overrides: { policies, drain: { timeoutMs: 0 } } });
});
afterAll(async () => {
  for (const client of clients) client.destroy();
  await gateway.close();
  await upstream.close();
});

async function refusal(bytes: string, port = gateway.traffic.port): Promise<number> {
  const client = new RawConnection(port);
  clients.push(client);
  client.write(bytes + smuggled);
  const { status } = await client.read();
  expect(await within("the connection ends", client.closed, 4_000)).toBe("end");
  expect(client.rest).toBe("");
  return status;
}

test.each(refusedHeads)("%s: %i, closed, nothing forwarded", async (_, status, bytes) => {
  const before = upstream.bytes();
  expect(await refusal(bytes)).toBe(status);
  expect(upstream.bytes()).toBe(before);
});

test.each(brokenBodies)("%s: %i, closed, the upstream's request breaks off", async (_, status, bytes) => {
  const before = upstream.bytes().length;
  expect(await refusal(bytes)).toBe(status);
  const sent = upstream.bytes().slice(before);
  expect(sent).not.toMatch(/\r\n0\r\n/);
  expect(sent).not.toContain("smuggled");
});

describe("forwarded as they are", () => {
  let recording: TestUpstream;
  let recorder: TestGateway;
  beforeAll(async () => {
    recording = await startUpstream();
    recorder = await startTestGateway({ upstreamUrl: recording.url, overrides: { drain: { timeoutMs: 0 } } });
  });
  afterAll(async () => {
    await recorder.close();
    await recording.close();
  });

  const harmless: readonly (readonly [name: string, fields: string, seen: readonly [string, string][]])[] = [
    ["prototype names", "constructor: 1\r\ntoString: 2\r\nhasOwnProperty: 3\r\n", [["toString", "2"]]],
    [
      "integer-like names",
      "1: a\r\n0: b\r\n1: c\r\n",
      [
        ["1", "a"],
        ["0", "b"],
        ["1", "c"],
      ],
    ],
    [
      "the same name in three cases",
      "X-A: 1\r\nx-a: 2\r\nX-a: 3\r\n",
      [
        ["X-A", "1"],
        ["x-a", "2"],
        ["X-a", "3"],
      ],
    ],
    ["an empty value", "X-Empty:\r\n", [["X-Empty", ""]]],
    ["odd but valid names", "!#$%&'*+-.^`|~: v\r\n", [["!#$%&'*+-.^`|~", "v"]]],
    ["200 fields", many(198), [["X", "y"]]],
  ];
  test.each(harmless)("%s", async (_, fields, seen) => {
    const client = new RawConnection(recorder.traffic.port);
    clients.push(client);
    client.write(head(fields, "GET /v2/x HTTP/1.1"));
    expect((await client.read()).status).toBe(200);
    const rawFields = recording.received.at(-1)?.rawFields ?? [];
    for (const [name] of seen) {
      const values = seen.filter(([other]) => other.toLowerCase() === name.toLowerCase()).map(([, value]) => value);
      expect(valuesOf(rawFields, name).slice(0, values.length)).toEqual(values);
      expect(rawFields).toContain(name);
    }
    expect(valuesOf(rawFields, "X")).toHaveLength(fields.split("\n").filter((line) => line === "X: y\r").length);
  });

  test("chunk extensions and trailers are dropped, the body is whole", async () => {
    const client = new RawConnection(recorder.traffic.port);
    clients.push(client);
    client.write(chunks('2;a=b;c="d"\r\nhi\r\n0\r\nX-Trailer: t\r\n\r\n'));
    expect((await client.read()).status).toBe(200);
    const received = recording.received.at(-1);
    expect(received?.body.toString()).toBe("hi");
    expect(JSON.stringify(received?.rawFields)).not.toContain("railer");
  });

  test("a body of 1-byte chunks arrives whole", async () => {
    const client = new RawConnection(recorder.traffic.port);
    clients.push(client);
    client.write(chunks(`${"1\r\nx\r\n".repeat(50_000)}0\r\n\r\n`));
    expect((await client.read()).status).toBe(200);
    expect(recording.received.at(-1)?.body.length).toBe(50_000);
  });
});
