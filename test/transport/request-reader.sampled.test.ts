// What a connection remembers of its last head changes nothing: each head is read as by a connection that has read none.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { readPeer } from "../../src/core/client-address.ts";
import type { LocalReply } from "../../src/core/local-reply.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import { type ReadHead, RequestReader } from "../../src/transport/http1/request-reader.ts";
import { mutateBytes, mutateLineEnd } from "../conformance/fuzz/byte-mutations.ts";
import { Random } from "../conformance/fuzz/random.ts";
import { serialize, validRequest } from "../conformance/fuzz/request-parts.ts";
import { requestCases } from "../conformance/requests/corpus.ts";
import { eventually } from "../support/eventually.ts";
import { scaled } from "../support/runs.ts";

const rules = { header: "x-forwarded-for", trustedProxies: new NetworkSet([]), ipv6Prefix: 64 } as const;
const peer = readPeer("192.0.2.1", rules);
const bytesOf = (text: string): Buffer => Buffer.from(text, "latin1");
const get = (target: string, lines = "Host: a\r\n"): string => `GET ${target} HTTP/1.1\r\n${lines}\r\n`;

/** Without what is remembered. */
function readAs(reader: RequestReader, text: string) {
  const read = reader.read(bytesOf(text), peer);
  if (!isRead(read)) return read;
  const { headBytes, bodyBytes, awaitsContinue, isLast } = read;
  const { method, target, httpVersion, rawHeaders } = read.head;
  return {
    headBytes,
    bodyBytes,
    awaitsContinue,
    isLast,
    method,
    target,
    httpVersion,
    rawHeaders,
    isOfPeer: read.head.peer === peer,
  };
}

/** Returns whether the second head was read from memory at least in part. */
function expectSameBehind(first: string, second: string): boolean {
  const reader = new RequestReader();
  for (let i = 0; i < 3; i += 1) reader.read(bytesOf(first), peer);
  const before = reader.read(bytesOf(first), peer);
  expect(readAs(reader, second), JSON.stringify([first, second])).toEqual(readAs(new RequestReader(), second));
  const after = reader.read(bytesOf(second), peer);
  return isRead(before) && isRead(after) && before.head.rawHeaders === after.head.rawHeaders;
}

const isRead = (read: ReadHead | LocalReply | "incomplete"): read is ReadHead =>
  typeof read !== "string" && "head" in read;

test("a remembered head keeps no memory that is shared with other bytes", async () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage: () => void = runInNewContext("gc");
  const readers = Array.from({ length: 100 }, () => new RequestReader());
  collectGarbage();
  const before = process.memoryUsage().arrayBuffers;
  for (const reader of readers) {
    for (const target of ["/v2/a", "/v2/b", "/v2/c", "/v2/longer"]) reader.read(bytesOf(get(target)), peer);
    // Node's slab is used up, so that the next reader gets another one.
    for (let left = Buffer.poolSize; left > 0; left -= 20_000) Buffer.allocUnsafe(20_000);
  }
  await eventually("the other bytes are freed", () => {
    collectGarbage();
    return process.memoryUsage().arrayBuffers - before < readers.length * 4096;
  });
  expect(readers.every((reader) => isRead(reader.read(bytesOf(get("/v2/b")), peer)))).toBe(true);
});

describe("the same head", () => {
  test("is one object from the second request on", () => {
    const reader = new RequestReader();
    const reads = Array.from({ length: 4 }, () => reader.read(bytesOf(get("/v2/x")), peer));
    expect(reads.map((read) => isRead(read) && read.head.memory !== null)).toEqual([false, true, true, true]);
    expect(reads[2]).toBe(reads[3]);
  });

  test("with another target shares what was read from the headers", () => {
    expect(expectSameBehind(get("/v2/x"), get("/v2/other?a=1"))).toBe(true);
  });

  test("is recognized with a body and further bytes behind it, and with another body", () => {
    const post = "POST /v2/x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n";
    expect(expectSameBehind(`${post}hi`, `${post}hoGET`)).toBe(true);
  });

  test("of another peer is read again", () => {
    const reader = new RequestReader();
    for (let i = 0; i < 3; i += 1) reader.read(bytesOf(get("/v2/x")), peer);
    const other = readPeer("192.0.2.2", rules);
    expect(reader.read(bytesOf(get("/v2/x")), other)).toMatchObject({ head: { peer: other } });
  });

  test("of peers that take turns is not remembered", () => {
    const reader = new RequestReader();
    const peers = [peer, readPeer("192.0.2.2", rules)];
    const reads = [0, 1, 0, 1].map((i) => reader.read(bytesOf(get("/v2/x")), peers[i] ?? peer));
    expect(reads.map((read) => isRead(read) && read.head.memory)).toEqual([null, null, null, null]);
  });

  test("is read again when it was forgotten", () => {
    const reader = new RequestReader();
    const before = [1, 2, 3].map(() => reader.read(bytesOf(get("/v2/x")), peer)).at(-1);
    reader.forget();
    expect(reader.read(bytesOf(get("/v2/x")), peer)).not.toBe(before);
  });

  test("survives its bytes, which the next read overwrites", () => {
    const reader = new RequestReader();
    const memory = bytesOf(get("/v2/x"));
    for (let i = 0; i < 3; i += 1) reader.read(memory, peer);
    memory.fill(0x41);
    expect(readAs(reader, get("/v2/x"))).toMatchObject({ target: "/v2/x", rawHeaders: ["Host", "a"] });
  });

  test("is not remembered if it is long", () => {
    const long = get("/v2/x", `Host: a\r\nCookie: ${"x".repeat(2048)}\r\n`);
    const reader = new RequestReader();
    for (let i = 0; i < 3; i += 1) expect(reader.read(bytesOf(long), peer)).toMatchObject({ head: { memory: null } });
  });
});

test.each([
  ["a target that is refused", get("/v2/x"), get("/v2/\xe4")],
  ["the absolute form", get("/v2/x"), get("http://b/v2/x")],
  ["the absolute form of another host", get("http://b/v2/x"), get("http://c/v2/x")],
  ["another method", get("/v2/x"), get("/v2/x").replace("GET", "DELETE")],
  ["another version", get("/v2/x"), get("/v2/x").replace("1.1", "1.0")],
  ["HTTP/1.0 behind itself", get("/v2/x").replace("1.1", "1.0"), get("/v2/y").replace("1.1", "1.0")],
  ["one byte less", get("/v2/x"), get("/v2/x").slice(0, -1)],
  ["a value in another case", get("/v2/x"), get("/v2/x", "Host: A\r\n")],
  ["a header more", get("/v2/x"), get("/v2/x", "Host: a\r\nX: y\r\n")],
  ["a header less", get("/v2/x", "Host: a\r\nX: y\r\n"), get("/v2/x")],
  ["the headers inside of the target", get("/v2/x"), get("/v2/x HTTP/1.1\r\nHost: b\r\n/")],
])("%s is read as by a new connection", (_, first, second) => {
  expectSameBehind(first, second);
});

test("each case of the request corpus is read the same behind each of a few others", () => {
  const firsts = [...requestCases.slice(0, 10).map(({ bytes }) => bytes), get("/v2/x")];
  for (const { bytes } of requestCases) for (const first of firsts) expectSameBehind(first, bytes);
});

const mutations = scaled(10_000);

test(`so is each of ${mutations} mutations of a head behind that head`, () => {
  let remembered = 0;
  for (let seed = 0; seed < mutations; seed += 1) {
    const random = new Random(seed);
    const valid = serialize(validRequest(random, `m${seed}`));
    const mutated = random.oneIn(3) ? mutateLineEnd(random, valid) : mutateBytes(random, valid);
    if (expectSameBehind(valid, mutated)) remembered += 1;
  }
  expect(remembered).toBeGreaterThan(scaled(500));
});
