// One response of the upstream becomes one answer, whether the client speaks HTTP/1.1 or HTTP/2: the same status, fields,
// body and interim responses, less what HTTP/1.1 says of its own connection.
import { beforeAll, expect, test } from "vitest";
import { useCleanup, useSharedCleanup } from "../support/cleanup.ts";
import { Http2Client } from "../support/http2-client.ts";
import { slidingPolicy } from "../support/policy.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request, response, type Stage, stageRaw } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";
import type { RawUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const withTls = useTls();

/** One gateway serves all tests: each has clients of its own, and says what the upstream sends. */
let ca = "";
let gateway: Stage<RawUpstream>["gateway"];
let sent = "";
const sharedCleanup = useSharedCleanup();
beforeAll(async () => {
  const tls = withTls({ policies: [slidingPolicy({ limit: 10_000, windowMs: 60_000 })] });
  ({ gateway } = await stageRaw(sharedCleanup, (socket) => void socket.write(sent, "latin1"), tls.overrides));
  ({ ca } = tls);
});

interface Answer {
  readonly interim: readonly number[];
  readonly status: number;
  readonly names: readonly string[];
  readonly body: string;
}

const ofConnection = ["connection", "keep-alive", "transfer-encoding"];

const namesOf = (rawHeaders: readonly string[]): string[] =>
  rawHeaders.flatMap((name, i) =>
    i % 2 === 0 && !ofConnection.includes(name.toLowerCase()) ? name.toLowerCase() : [],
  );

async function answersTo(bytes: string): Promise<{ one: Answer; two: Answer }> {
  sent = bytes;
  const http1 = cleanup(new RawConnection(gateway.traffic.port, { tls: { ca } })).write(request("/v2/x"));
  const interim: number[] = [];
  let answer = await http1.read();
  for (; answer.status < 200; answer = await http1.read()) interim.push(answer.status);
  const { status, rawHeaders, body } = answer;
  const http2 = await new Http2Client(gateway.traffic.port, ca, cleanup).ask();
  return {
    one: { interim, status, names: namesOf(rawHeaders), body },
    two: { interim: http2.interim, status: http2.status, names: namesOf(http2.rawHeaders), body: http2.body },
  };
}

const early = (fields: string): string => `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n${fields}\r\n`;

test("LF behind a field ends its line, and in a 103 it is a 502", async () => {
  const fields = "X-A: a\nX-B: b\r\n";
  const { one, two } = await answersTo(response("ok", fields));
  expect(two).toEqual(one);
  expect(one).toMatchObject({ status: 200, names: expect.arrayContaining(["x-a", "x-b"]), body: "ok" });
  for (const answer of Object.values(await answersTo(early(fields) + response("ok")))) expect(answer.status).toBe(502);
});

test.each([200, 204, 299, 304, 308, 418, 429, 451, 500, 599, 600, 700, 999])("a status of %i", async (status) => {
  const hasBody = status !== 204 && status !== 304;
  const bytes = hasBody ? response("ok", "X-A: 1\r\n", `${status} Odd`) : `HTTP/1.1 ${status} Odd\r\nX-A: 1\r\n\r\n`;
  const { one, two } = await answersTo(bytes);
  expect(two).toEqual(one);
  expect(one.status).toBe(status);
});

test.each([100, 101, 102, 199])("an interim status of %i before a 200", async (status) => {
  const { one, two } = await answersTo(`HTTP/1.1 ${status} Odd\r\nX-A: 1\r\n\r\n${response("ok")}`);
  expect(two).toEqual(one);
  expect(one.status).toBe(status === 101 ? 502 : 200);
});

test.each([
  ["Connection", "X-Gone"],
  ["Keep-Alive", "timeout=5"],
  ["Proxy-Connection", "keep-alive"],
  ["Proxy-Authenticate", "Basic"],
  ["Proxy-Authorization", "Basic c2VjcmV0"],
  ["TE", "gzip"],
  ["TE", "trailers"],
  ["Trailer", "X-T"],
  ["Upgrade", "h2c"],
  ["HTTP2-Settings", "AAMAAABkAAQAAP__"],
  ["http2-settings", "x"],
])("a response with %s: %s, alone and in a 103", async (name, value) => {
  for (const bytes of [response("ok", `${name}: ${value}\r\n`), early(`${name}: ${value}\r\n`) + response("ok")]) {
    const { one, two } = await answersTo(bytes);
    expect(two).toEqual(one);
    expect(one).toMatchObject({ status: 200, body: "ok" });
    expect(one.interim).toEqual(bytes.startsWith("HTTP/1.1 103") ? [103] : []);
    expect(one.names).not.toContain(name.toLowerCase());
  }
});

test.each([
  ["an upper-case name", "X-UPPER: 1\r\n"],
  ["names of digits and signs", "1: a\r\n!#$%&'*+-.^_`|~: b\r\n"],
  ["a prototype's names", "__proto__: a\r\nconstructor: b\r\n"],
  ["bytes over 127", "X-A: \xe4\xff\r\n"],
  ["an empty value", "X-A:\r\n"],
  ["a tab inside a value", "X-A: a\tb\r\n"],
  [
    "lines of one name",
    "Content-Type: a\r\nContent-Type: b\r\nETag: 1\r\nETag: 2\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n",
  ],
  ["a pseudo-header's name without its colon", "status: 404\r\nmethod: x\r\n"],
  ["many fields", Array.from({ length: 110 }, (_, i) => `X-${i}: ${i}\r\n`).join("")],
  ["a long value", `X-A: ${"a".repeat(15_000)}\r\n`],
])("a response with %s, alone and in a 103", async (_, fields) => {
  for (const bytes of [response("ok", fields), early(fields) + response("ok")]) {
    const { one, two } = await answersTo(bytes);
    expect(two).toEqual(one);
    expect(one).toMatchObject({ status: 200, body: "ok" });
  }
});

test.each([
  ["NUL in a value", "X-A: a\0b\r\n"],
  ["CR in a value", "X-A: a\rb\r\n"],
  ["a folded value", "X-A: a\r\n b\r\n"],
  ["a blank in a name", "X A: b\r\n"],
  ["a name that is none", ": b\r\n"],
  ["a pseudo-header", ":status: 200\r\n"],
  ["bytes over 127 in a name", "X-\xe4: b\r\n"],
])("a response with %s is a 502, in a 103 too", async (_, fields) => {
  for (const bytes of [response("ok", fields), early(fields) + response("ok")]) {
    const { one, two } = await answersTo(bytes);
    expect(two).toEqual(one);
    expect(one.status).toBe(502);
  }
});
