// Our reader of heads beside Node's parser: what it reads Node reads the same, and what it refuses Node refuses, but for what
// is listed here. The way in which a head is cut changes nothing.
import { createServer, type IncomingMessage, METHODS, type ServerResponse } from "node:http";
import { duplexPair } from "node:stream";
import { describe, expect, test } from "vitest";
import { localReplies } from "../../src/core/local-reply.ts";
import { emptyLineBytes, HeadScan, type Http1Head, readHead, requestBounds } from "../../src/http1/request-head.ts";
import { mutateBytes, mutateLineEnd } from "../conformance/fuzz/byte-mutations.ts";
import { Random } from "../conformance/fuzz/random.ts";
import { serialize, validRequest } from "../conformance/fuzz/request-parts.ts";
import { requestCases } from "../conformance/requests/corpus.ts";
import { cpuMsOf } from "../support/cpu-time.ts";
import { within } from "../support/eventually.ts";
import { scaled } from "../support/runs.ts";

const head = "GET /v2/x HTTP/1.1\r\nHost: a\r\n";
const post = "POST /v2/x HTTP/1.1\r\nHost: a\r\n";
const read = (text: string) => readHead(Buffer.from(text, "latin1"));

/** What Node's parser makes of the first head: its parts, or the code of an error. */
async function readByNode(text: string): Promise<object | string> {
  const seen: (object | string)[] = [];
  const server = createServer({ requireHostHeader: false, maxHeaderSize: 16 * 1024 });
  server.maxHeadersCount = 200;
  const onRequest = (req: IncomingMessage, res: ServerResponse): void => {
    seen.push(partsOf(req, res.shouldKeepAlive));
    req.resume();
    res.end();
  };
  server.on("request", onRequest).on("checkContinue", onRequest).on("checkExpectation", onRequest);
  server.on("upgrade", (req, socket) => {
    seen.push(partsOf(req, req.httpVersion !== "1.0"));
    socket.destroy();
  });
  server.on("connect", (_req, socket) => {
    seen.push("CONNECT");
    socket.destroy();
  });
  server.on("clientError", (error, socket) => {
    seen.push(String(Reflect.get(error, "code")));
    socket.destroy();
  });
  const [client, gateway] = duplexPair();
  server.emit("connection", gateway);
  client.resume();
  client.on("error", () => {});
  const closed = new Promise((resolve) => client.once("close", resolve));
  client.end(text, "latin1");
  await within("Node is done with it", closed);
  return seen[0] ?? "nothing";
}

function partsOf({ method, url: target, rawHeaders, httpVersion }: IncomingMessage, keepsAlive: boolean): object {
  return { method, target, rawHeaders, httpVersion, keepsAlive };
}

/** Node knows no minor version above 1, and no other major version; such a request is read as one that it knows. */
const withKnownVersion = (text: string): string =>
  text.replace(/^([A-Z-]+ +\S+ +HTTP\/)(\d\.\d)(?=\r)/, (line, start, version) =>
    /^(?:0\.9|1\.[01]|2\.0)$/.test(version) ? line : `${start}${version > "1.1" && version < "2" ? "1.1" : "2.0"}`,
  );

type Kind = "read" | "refused" | "incomplete";

async function expectSameAsNode(bytes: string): Promise<Kind> {
  const buffer = Buffer.from(bytes, "latin1");
  const text = buffer.subarray(emptyLineBytes(buffer)).toString("latin1");
  const own = read(text);
  const known = withKnownVersion(text);
  const node = await readByNode(known);
  const label = JSON.stringify(bytes.slice(0, 2_000));
  if (own === "incomplete") {
    expect(node, label).toMatch(/^(?:HPE_|nothing)/);
    return "incomplete";
  }
  if ("status" in own) {
    if (typeof node !== "string") expect(text, label).toMatch(/ (?:RTSP|ICE)\/\d\.\d\r/);
    return "refused";
  }
  const { method, target, httpVersion, rawHeaders, isLast } = own;
  const isOld = httpVersion > "1.1" || httpVersion < "1.0";
  const version = isOld ? (node as { httpVersion?: string }).httpVersion : httpVersion;
  // Node keeps a connection of HTTP/1.0 that is asked to be kept and to be closed.
  const keepsAlive = isOld || /keep-alive.*close|close\r\n.*keep-alive/.test(text) ? expect.anything() : !isLast;
  expect(node, label).toEqual({ method, target, rawHeaders, httpVersion: version, keepsAlive });
  return "read";
}

describe("is read as by Node", () => {
  const values = ["close", "Keep-Alive", "x, keep-alive ,y", "keep-alivex", "", ",", "closed", "close x", "close;x"];
  const lists = ["keep-alive,close", "x ,\tclose\t, y", ", close ,", "close,", '"close"', "x,close x", "close\xa0"];
  const connection = [...values, ...lists].flatMap((value) =>
    ["Connection", "cONNECTION", "Proxy-Connection"].map((name) => `${name}: ${value}\r\n`),
  );
  const fields = [
    ...connection,
    "Connection: close\r\nConnection: keep-alive\r\n",
    "Connection: x\r\nProxy-Connection: close\r\n",
    "X:\r\n",
    "X:\t a b \t\r\n",
    "Content-Length: 2\r\n",
    "Content-Length: \t0002\t\r\n",
    "Content-Length: 18446744073709551615\r\n",
    "Transfer-Encoding: chunked\r\n",
    "tRANSFER-eNCODING: ChunkeD\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
    "Transfer-Encoding: xchunked, chunkedx\r\n",
    "Transfer-Encoding: identity\r\n",
    "Expect: 100-continue\r\n",
    "Expect: tea\r\nExpect: 100-continue\r\n",
    "Upgrade: websocket\r\n",
    "Connection: Upgrade\r\nUpgrade: websocket\r\n",
    "X: y\r\n".repeat(199),
    `X: ${"y".repeat(16_000)}\r\n`,
  ];
  const targets = [
    "*",
    "/",
    "http://a",
    "https://a:80/v2/x",
    "HTTP://a?x=http://b/#c",
    "http://[::1]:80/v2/../x?a#b#c",
  ];
  const odd = ["http:///x", "http://", "http://u@", "http://u:p@a@b/x", "ftp://a/b", "*x"];
  test.each(["1.0", "1.1", "1.2", "1.9", "0.9", "2.0", "3.1"])("HTTP/%s", async (version) => {
    for (const more of fields) {
      const text = `${post.replace("1.1", version)}${more}\r\n`;
      expect([text, await expectSameAsNode(text)]).toEqual([text, "read"]);
    }
  });

  test.each([...targets, ...odd])("the target %s", async (target) => {
    expect(await expectSameAsNode(`GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`)).toBe("read");
  });

  test("every method that Node knows, but for CONNECT", async () => {
    for (const method of METHODS.filter((name) => name !== "CONNECT")) {
      expect([method, await expectSameAsNode(`${method} /v2/x HTTP/1.1\r\nHost: a\r\n\r\n`)]).toEqual([method, "read"]);
    }
  });

  test.each([
    "GET /v2/x HTTP/1.1\r\n\r\n",
    "GET   /v2/x   HTTP/1.1\r\n\r\n",
    "GET /v2/x\r\nHost: a\r\n\r\n",
    `\r\n\r\n${head}\r\n`,
    `\n\r\r\n${head}\r\n`,
  ])("%j", async (text) => expect(await expectSameAsNode(text)).toBe("read"));
});

test("what is read of a body, an expectation, the end of the connection, and an Upgrade", () => {
  const plain = { bodyBytes: 0, expectation: null, isLast: false, asksToUpgrade: false };
  const upgrade = "Connection: x, Upgrade\r\nUpgrade: y\r\n";
  const cases: readonly (readonly [fields: string, expected: Partial<Http1Head>])[] = [
    ["", plain],
    ["Content-Length: 2\r\n", { ...plain, bodyBytes: 2 }],
    ["Transfer-Encoding: chunked\r\n", { ...plain, bodyBytes: null }],
    ["Expect: a\r\nExpect: b\r\n", { ...plain, expectation: "a, b" }],
    ["Connection: close\r\n", { ...plain, isLast: true }],
    [upgrade, { ...plain, asksToUpgrade: true }],
    ["Upgrade: y\r\n", plain],
    ["Proxy-Connection: Upgrade\r\nUpgrade: y\r\n", plain],
    [`Content-Length: 2\r\n${upgrade}`, { ...plain, bodyBytes: 2 }],
    [`Transfer-Encoding: chunked\r\n${upgrade}`, { ...plain, bodyBytes: null }],
  ];
  for (const [fields, expected] of cases) {
    const text = `${post}${fields}\r\n`;
    expect(read(`${text}behind`), fields).toMatchObject({ ...expected, headBytes: text.length });
  }
  const ofVersion0 = "POST /v2/x HTTP/1.0\r\nExpect: 100-continue\r\n\r\n";
  expect(read(ofVersion0)).toMatchObject({ ...plain, isLast: true, httpVersion: "1.0" });
});

test("a body is never believed to end where the framing is doubtful", () => {
  const doubtful = ["gzip, chunked", "gzip\r\nTransfer-Encoding: chunked", "identity", "xchunked", "chunked;a", ","];
  const fields = doubtful.map((value) => `Transfer-Encoding: ${value}\r\n`);
  for (const more of [...fields, "Content-Length: 1000000000000000\r\n"]) {
    expect([more, read(`${post}${more}\r\n`)]).toMatchObject([more, { bodyBytes: Number.POSITIVE_INFINITY }]);
  }
  const ofVersion0 = `${post.replace("1.1", "1.0")}Transfer-Encoding: chunked\r\n\r\n`;
  expect(read(ofVersion0)).toMatchObject({ bodyBytes: Number.POSITIVE_INFINITY });
});

describe("is refused, and by Node as well", () => {
  const line = (text: string): string => `${text}\r\nHost: a\r\n\r\n`;
  const texts: readonly string[] = [
    ..."G(T /v2/x HTTP/1.1,GET HTTP/1.1,GET /v2/x http/1.1".split(","),
    ..."GET a:80 HTTP/1.1,GET http:/a HTTP/1.1,GET http://a@@b/ HTTP/1.1,GET ht1p://a HTTP/1.1".split(","),
    ..."GET http://a#b HTTP/1.1,GET /v2/x HTTP/11,GET /v2/x HTTP/1.10,GET /v2/x HTTP/1.1 ,GET /v2/x y HTTP/1.1".split(
      ",",
    ),
    ..."GET\t/v2/x HTTP/1.1,CONNECT #x HTTP/1.1, GET /v2/x HTTP/1.1".split(","),
    ..."GET /v2/x SIP/2.0,GET /v2/x ,GET /v2/x HTTP/x.y".split(","),
  ].map(line);
  const fields = [
    ..."X : y,X\t: y,: x,X,X Y: z,X: y\r\n z,X: y\r\n\tz,X: y\nZ: z,X: y\rZ: z,X: \0,X: \x7f,X\xe4: y, X: y".split(","),
    ..."Content-Length:,Content-Length: +0,Content-Length: 0x1,Content-Length: 1 2,Content-Length: 1\xa0".split(","),
    ..."Content-Length: 18446744073709551616,Content-Length: 0\r\nContent-Length: 0,Transfer-Encoding:".split(","),
    "Content-Length: 0, 0",
    "Content-Length: 0\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: gzip\r\nContent-Length: 0",
    "Transfer-Encoding: chunked, gzip",
    "Transfer-Encoding: chunked,",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: gzip",
  ].map((field) => `${post}${field}\r\n\r\n`);
  test.each([...texts, ...fields])("%j", async (text) => {
    expect(await expectSameAsNode(text)).toBe("refused");
    expect(read(text)).toMatchObject(localReplies.malformed);
    expect(await readByNode(text)).toMatch(/^HPE_/);
  });
});

test("what is too large, too much or not supported has a status of its own", async () => {
  const large = "y".repeat(17 * 1024);
  const cases = [
    [`GET /${large} HTTP/1.1\r\nHost: a\r\n\r\n`, localReplies.targetTooLong],
    [`${head}X: ${large}\r\n\r\n`, localReplies.headTooLarge],
    [`${head}${large}: x\r\n\r\n`, localReplies.headTooLarge],
    [`${head}${"X: y\r\n".repeat(200)}\r\n`, localReplies.tooManyFields],
    [`${head}${`X: ${"y".repeat(100)}\r\n`.repeat(170)}\r\n`, localReplies.headTooLarge],
    ["CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", localReplies.unsupportedMethod],
    ["CONNECT /v2/x HTTP/1.1\r\n\r\n", localReplies.unsupportedMethod],
    ...["BREW", "get", "G", "GETS", "PRI", "DESCRIBE", "x".repeat(2_000)].map(
      (method) => [`${method} /v2/x HTTP/1.1\r\nHost: a\r\n\r\n`, localReplies.unsupportedMethod] as const,
    ),
    [`${large} /v2/x HTTP/1.1\r\n\r\n`, localReplies.headTooLarge],
  ] as const;
  for (const [text, reply] of cases) {
    expect([text.length, await expectSameAsNode(text)]).toEqual([text.length, "refused"]);
    expect(read(text)).toBe(reply);
  }
  // Node neither counts nor bounds these.
  expect(read(`${head}X:${" ".repeat(60_000)}`)).toBe(localReplies.headTooLarge);
  expect(read(`GET ${" ".repeat(60_000)}`)).toBe(localReplies.headTooLarge);
  expect(read("GET /v2/x RTSP/1.0\r\n\r\n")).toMatchObject(localReplies.malformed);
});

test("bounds of the caller's own", () => {
  const bounds = { maxBytes: 32 * 1024, maxFields: 250 };
  const many = `${head}${"X: y\r\n".repeat(249)}\r\n`;
  // The target, and the names and values of the fields: a head that has all of the bound is too large.
  const counted = "/v2/x".length + "Host".length + "a".length + "X".length;
  for (const [text, refusal] of [
    [`${head}X: ${"y".repeat(bounds.maxBytes - counted - 1)}\r\n\r\n`, null],
    [`${head}X: ${"y".repeat(bounds.maxBytes - counted)}\r\n\r\n`, localReplies.headTooLarge],
    [many, null],
    [many.replace("\r\n\r\n", "\r\nX: y\r\n\r\n"), localReplies.tooManyFields],
    [`${head}X: ${"y".repeat(32_000)}\r\n\r\n`, null],
    [`${head}X: ${"y".repeat(33_000)}\r\n\r\n`, localReplies.headTooLarge],
  ] as const) {
    const result = readHead(Buffer.from(text), bounds);
    expect(result).toEqual(refusal ?? expect.objectContaining({ method: "GET" }));
  }
});

const isVisible = (code: number): boolean => code > 0x20 && code < 0x7f;
const isInValue = (code: number): boolean => isVisible(code) || code === 0x20 || code === 0x09 || code > 0x7f;

test.each([
  ["a value: all but control characters", isInValue, (byte: string) => `${head}X: a${byte}b${byte}\r\n\r\n`],
  ["a path: visible ASCII", isVisible, (byte: string) => `GET /v2/${byte}x HTTP/1.1\r\nHost: a\r\n\r\n`],
  [
    "the path of the absolute form: visible ASCII",
    isVisible,
    (byte: string) => `GET http://a/${byte}x?${byte} HTTP/1.1\r\nHost: a\r\n\r\n`,
  ],
  ["a query: visible ASCII", isVisible, (byte: string) => `GET /v2/x?a${byte}b HTTP/1.1\r\nHost: a\r\n\r\n`],
] as const)("of all bytes it takes those that Node takes, in %s", async (_, isExpected, withByte) => {
  for (let code = 0; code < 256; code += 1) {
    const kind = await expectSameAsNode(withByte(String.fromCharCode(code)));
    expect([code, kind]).toEqual([code, isExpected(code) ? "read" : "refused"]);
  }
});

test.each([
  (byte: string) => `GET http://${byte}a/v2/x HTTP/1.1\r\nHost: a\r\n\r\n`,
  (byte: string) => `GET http://a${byte}${byte}b HTTP/1.1\r\nHost: a\r\n\r\n`,
  (byte: string) => `CONNECT ${byte}a:1 HTTP/1.1\r\nHost: a\r\n\r\n`,
  (byte: string) => `${byte}GET /v2/x HTTP/1.1\r\nHost: a\r\n\r\n`,
  (byte: string) => `GET${byte}/v2/x HTTP/1.1\r\nHost: a\r\n\r\n`,
  (byte: string) => `GET /v2/x${byte}HTTP/1.1\r\nHost: a\r\n\r\n`,
  (byte: string) => `GET /v2/x HTTP/1.1${byte}\r\nHost: a\r\n\r\n`,
  (byte: string) => `GET /v2/x HTTP/1.1\r\n${byte}Host: a\r\n\r\n`,
  (byte: string) => `GET /v2/x HTTP/1.1\r\nHo${byte}st: a\r\n\r\n`,
  (byte: string) => `GET /v2/x HTTP/1.1\r\nHost: a\r${byte}\n\r\n`,
  (byte: string) => `GET /v2/x HTTP/1.1\r\nHost: a\r\n\r${byte}\n`,
])("every byte in every other place, as for Node: %o", async (withByte) => {
  for (let code = 0; code < 256; code += 1) await expectSameAsNode(withByte(String.fromCharCode(code)));
});

/** Pieces of the bytes, each read together with those before it. */
function scanInPieces(bytes: Buffer, cuts: readonly number[]) {
  const scan = new HeadScan(requestBounds);
  for (const cut of cuts) {
    const result = scan.next(bytes.subarray(0, cut));
    if (result !== "incomplete") return result;
  }
  return scan.next(bytes);
}

function expectSameInPieces(text: string, random: Random): void {
  const bytes = Buffer.from(text, "latin1");
  const rest = bytes.subarray(emptyLineBytes(bytes));
  const whole = new HeadScan(requestBounds).next(rest);
  const cuts = Array.from({ length: 5 }, () => random.int(rest.length + 1)).sort((a, b) => a - b);
  const label = JSON.stringify([text.slice(0, 2_000), cuts]);
  expect(scanInPieces(rest, cuts), label).toEqual(whole);
  // What is wrong with the framing is known at the end of the head.
  const own = readHead(rest);
  if (typeof whole !== "number") expect(own, label).toEqual(whole);
  else if (!("status" in Object(own))) expect(own, label).toMatchObject({ headBytes: whole });
}

test("every case of the request corpus, and mutated requests, whole and in pieces", async () => {
  const kinds: Record<Kind, number> = { read: 0, refused: 0, incomplete: 0 };
  for (const { bytes } of requestCases) {
    if (emptyLineBytes(Buffer.from(bytes, "latin1")) === bytes.length) continue;
    kinds[await expectSameAsNode(bytes)] += 1;
    expectSameInPieces(bytes, new Random(bytes.length));
  }
  for (let seed = 0; seed < scaled(5_000); seed += 1) {
    const random = new Random(seed);
    const valid = serialize(validRequest(random, `m${seed}`));
    const mutated = random.oneIn(3) ? mutateLineEnd(random, valid) : mutateBytes(random, valid);
    kinds[await expectSameAsNode(mutated)] += 1;
    expectSameInPieces(mutated, random);
  }
  expect(Math.min(kinds.read, kinds.refused)).toBeGreaterThan(scaled(500));
});

test("a hostile head costs no more than its length, however it is cut", () => {
  // Would take minutes if a character could be taken by more than one part of a pattern, or each piece looked at all others.
  const times = scaled(200, 4);
  const line = `X:${" ".repeat(8_000)}`;
  for (let i = 0; i < times; i += 1)
    expect(read(`${head}${line}${line}\0\r\n\r\n`)).toMatchObject(localReplies.malformed);
  const list = `${head}Connection: ${", \t ".repeat(4_000)}x\r\n\r\n`;
  for (let i = 0; i < times; i += 1) expect(read(list)).toMatchObject({ method: "GET" });
  for (const name of ["Expect", "Transfer-Encoding", "Connection"]) {
    const lines = `${name}: ${"x,".repeat(30)}\r\n`.repeat(199);
    for (let i = 0; i < times; i += 1) expect(read(`${head}${lines}\r\n`)).toMatchObject({ method: "GET" });
  }
  const usual = `${head}X: ${"0".repeat(16_000)}x\r\n\r\n`;
  const zeros = `${head}Content-Length: ${"0".repeat(16_000)}x\r\n\r\n`;
  const [usualMs, zerosMs] = [usual, zeros].map((text) => cpuMsOf(() => Array.from({ length: 200 }, () => read(text))));
  expect(zerosMs).toBeLessThan(30 * (usualMs ?? 0));
  const bytes = Buffer.from(`${head}X: ${"y".repeat(16_000)}\r\n\r\n`);
  for (let i = 0; i < scaled(20, 4); i += 1) {
    const scan = new HeadScan(requestBounds);
    let end = 1;
    while (scan.next(bytes.subarray(0, end)) === "incomplete") end += 1;
    expect(end).toBe(bytes.length);
  }
});
