// The fast lane's parser beside Node's: what it takes for one simple request, Node's reads as the same request and as
// nothing else. What it does not take, Node's parser decides alone.
import { createServer, type IncomingMessage, METHODS } from "node:http";
import { duplexPair } from "node:stream";
import { describe, expect, test } from "vitest";
import { readSimpleRequest } from "../../src/http1/simple-request.ts";
import { mutateBytes, mutateLineEnd } from "../conformance/fuzz/byte-mutations.ts";
import { Random } from "../conformance/fuzz/random.ts";
import { serialize, validRequest } from "../conformance/fuzz/request-parts.ts";
import { requestCases } from "../conformance/requests/corpus.ts";
import { within } from "../support/eventually.ts";

const read = (bytes: string) => readSimpleRequest(Buffer.from(bytes, "latin1"));
const head = "GET /v2/x HTTP/1.1\r\nHost: a\r\n";

interface Seen {
  readonly method: string;
  readonly target: string;
  readonly rawHeaders: readonly string[];
  readonly body: string;
  readonly version: string;
  readonly keepsAlive: boolean;
}

/** What Node's server makes of the bytes, and of the end behind them. */
async function readByNode(bytes: Buffer): Promise<readonly Seen[]> {
  const seen: Seen[] = [];
  const server = createServer({ requireHostHeader: false }, (req: IncomingMessage, res) => {
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => chunks.push(chunk));
    req.on("end", () => {
      const { method = "", url: target = "", rawHeaders, httpVersion: version } = req;
      const body = Buffer.concat(chunks).toString("latin1");
      seen.push({ method, target, rawHeaders, body, version, keepsAlive: res.shouldKeepAlive });
      res.end();
    });
  });
  server.on("clientError", (_error, socket) => socket.destroy());
  const [client, gateway] = duplexPair();
  server.emit("connection", gateway);
  client.resume();
  const closed = new Promise((resolve) => client.once("close", resolve));
  client.on("error", () => {});
  // Node knows no minor version above 1; such a request is read as HTTP/1.1.
  client.end(
    bytes.toString("latin1").replace(/^([A-Z]+ \S+ HTTP\/1\.)[2-9]\r/, (_, before) => `${before}1\r`),
    "latin1",
  );
  await within("Node is done with it", closed);
  return seen;
}

async function expectSameAsNode(bytes: Buffer): Promise<boolean> {
  const simple = readSimpleRequest(bytes);
  if (simple === null) return false;
  const { method, target, httpVersion: version, rawHeaders, body, isLast } = simple;
  const own = { method, target, rawHeaders, body: body.toString("latin1"), version, keepsAlive: !isLast };
  expect(await readByNode(bytes), JSON.stringify(bytes.toString("latin1"))).toEqual([own]);
  return true;
}

test("a head, a head with a body, white space around values", () => {
  expect(read(`${head}\r\n`)).toEqual({
    method: "GET",
    target: "/v2/x",
    httpVersion: "1.1",
    rawHeaders: ["Host", "a"],
    body: Buffer.alloc(0),
    isLast: false,
  });
  expect(read("POST /v2/x?a=1 HTTP/1.1\r\nHost:\t a b \t\r\nContent-Length: 2\r\nX:\r\n\r\nhi")).toEqual({
    method: "POST",
    target: "/v2/x?a=1",
    httpVersion: "1.1",
    rawHeaders: ["Host", "a b", "Content-Length", "2", "X", ""],
    body: Buffer.from("hi"),
    isLast: false,
  });
  expect(read(`${head}Connection: close\r\n\r\n`)).toMatchObject({ isLast: true });
  expect(read(`${head}Connection: keep-alive\r\n\r\n`)).toMatchObject({ isLast: false });
});

test("HTTP/1.0, with and without a host and a body, ends its connection unless it asks to keep it, as for Node", async () => {
  const values = ["close", "Keep-Alive", "x", "x, keep-alive ,y", "keep-alivex", "", "closed,keep-alive"];
  const lines = ["Host: a\r\n", "X: y\r\n", ...values.map((value) => `Connection: ${value}\r\n`)];
  for (const line of [...lines, "Proxy-Connection: keep-alive\r\n"]) {
    for (const body of ["\r\n", "Content-Length: 2\r\n\r\nhi"]) {
      expect([line, await expectSameAsNode(Buffer.from(`POST /v2/x HTTP/1.0\r\n${line}${body}`))]).toEqual([
        line,
        true,
      ]);
    }
  }
  expect(read("GET /v2/x HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n")).toMatchObject({ isLast: true });
});

test("every method that Node knows is read as by Node, but for those that are refused", async () => {
  for (const method of METHODS) {
    const line = `${method} /v2/x HTTP/1.1\r\nHost: a\r\n`;
    const isExpected = method !== "CONNECT" && method !== "TRACE";
    expect([method, await expectSameAsNode(Buffer.from(`${line}\r\n`))]).toEqual([method, isExpected]);
    await expectSameAsNode(Buffer.from(`${line}Content-Length: 2\r\n\r\nhi`));
  }
});

test.each([
  ["OPTIONS", "*"],
  ["GET", "*"],
  ["GET", "http://a"],
  ["GET", "https://a:80/v2/x"],
  ["GET", "http://a?x=http://b/#c"],
  ["POST", "http://[::1]:80/v2/../x?a#b#c"],
])("%s %s is read as by Node", async (method, target) => {
  expect(await expectSameAsNode(Buffer.from(`${method} ${target} HTTP/1.1\r\nHost: a\r\n\r\n`))).toBe(true);
});

test("Connection and Proxy-Connection, in any case and as lists, end what Node ends", async () => {
  const values = [
    "Close",
    "CLOSE",
    "Keep-Alive",
    "keep-alive, Authorization",
    "x",
    "",
    ",",
    "closed",
    "close x",
    "close;x",
  ];
  const lists = ["keep-alive,close", "x ,\tclose\t, y", ", close ,", "close,", '"close"', "x,close x", "close\xa0"];
  const lines = [...values, ...lists].flatMap((value) =>
    ["Connection", "cONNECTION", "Proxy-Connection"].map((name) => `${name}: ${value}\r\n`),
  );
  lines.push("Connection: close\r\nConnection: keep-alive\r\n", "Connection: x\r\nProxy-Connection: close\r\n");
  for (const line of lines) {
    expect([line, await expectSameAsNode(Buffer.from(`${head}${line}\r\n`, "latin1"))]).toEqual([line, true]);
  }
});

describe("left to Node's parser", () => {
  const cases: Readonly<Record<string, string>> = {
    "a head without its end": head,
    "a head without fields": "GET /v2/x HTTP/1.1\r\n\r\n",
    "a body that is not whole": `${head}Content-Length: 2\r\n\r\nh`,
    "something behind the body": `${head}Content-Length: 2\r\n\r\nhi!`,
    "something behind a head without length": `${head}\r\nh`,
    "a second request": `${head}\r\n${head}\r\n`,
    "an empty line before": `\r\n${head}\r\n`,
    "two lengths": `${head}Content-Length: 0\r\nContent-Length: 0\r\n\r\n`,
    "a length with a sign": `${head}Content-Length: +0\r\n\r\n`,
    "an empty length": `${head}Content-Length:\r\n\r\n`,
    "a list of lengths": `${head}Content-Length: 0, 0\r\n\r\n`,
    "an encoding": `${head}Transfer-Encoding: chunked\r\n\r\n`,
    "an encoding in another spelling": `${head}tRANSFER-eNCODING: identity\r\n\r\n`,
    "an expectation": `${head}Expect: 100-continue\r\n\r\n`,
    "an upgrade": `${head}Upgrade: websocket\r\n\r\n`,
    "HTTP/1.0 with an encoding": "GET /v2/x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "HTTP/1.0 with an expectation": "GET /v2/x HTTP/1.0\r\nExpect: 100-continue\r\n\r\n",
    "HTTP/0.9": "GET /v2/x HTTP/0.9\r\nHost: a\r\n\r\n",
    "HTTP/1.10": "GET /v2/x HTTP/1.10\r\nHost: a\r\n\r\n",
    "HTTP/2.1": "GET /v2/x HTTP/2.1\r\nHost: a\r\n\r\n",
    CONNECT: "CONNECT /v2/x HTTP/1.1\r\nHost: a\r\n\r\n",
    TRACE: "TRACE /v2/x HTTP/1.1\r\nHost: a\r\n\r\n",
    "an unknown method": "BREW /v2/x HTTP/1.1\r\nHost: a\r\n\r\n",
    "a method in lower case": "get /v2/x HTTP/1.1\r\nHost: a\r\n\r\n",
    "the absolute form without a host": "GET http:///v2/x HTTP/1.1\r\nHost: a\r\n\r\n",
    "the absolute form with a user": "GET http://u@a/v2/x HTTP/1.1\r\nHost: a\r\n\r\n",
    "the absolute form of another scheme": "GET ftp://a/v2/x HTTP/1.1\r\nHost: a\r\n\r\n",
    "a host and a port": "GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
    "something behind the asterisk": "OPTIONS *x HTTP/1.1\r\nHost: a\r\n\r\n",
    "two spaces": "GET  /v2/x HTTP/1.1\r\nHost: a\r\n\r\n",
    "white space before a colon": `${head}X : y\r\n\r\n`,
    "a folded line": `${head}X: y\r\n z\r\n\r\n`,
    "a line without a colon": `${head}X\r\n\r\n`,
    "a field without a name": `${head}: x\r\n\r\n`,
    "a bare line feed": `${head}X: y\nZ: z\r\n\r\n`,
    "a bare carriage return": `${head}X: y\rZ: z\r\n\r\n`,
    "a NUL": `${head}X: \0\r\n\r\n`,
    "a byte over 127 in a name": `${head}X\xe4: y\r\n\r\n`,
    "a byte over 127 in the target": "GET /v2/\xe4 HTTP/1.1\r\nHost: a\r\n\r\n",
    "201 fields": `${head}${"X: y\r\n".repeat(200)}\r\n`,
    "a head of over 16 KiB": `${head}X: ${"y".repeat(16 * 1024)}\r\n\r\n`,
  };
  for (const [name, bytes] of Object.entries(cases)) test(name, () => expect(read(bytes)).toBeNull());
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
] as const)(
  "of all bytes it takes those that Node takes, and reads them the same, in %s",
  async (_, isExpected, withByte) => {
    for (let code = 0; code < 256; code += 1) {
      const bytes = Buffer.from(withByte(String.fromCharCode(code)), "latin1");
      expect(await expectSameAsNode(bytes), `${code}`).toBe(isExpected(code));
      if (!isExpected(code)) expect(await readByNode(bytes), `${code}`).toEqual([]);
    }
  },
);

test("of all bytes in the host of the absolute form it takes none that Node refuses", async () => {
  let taken = 0;
  for (let code = 0; code < 256; code += 1) {
    const byte = String.fromCharCode(code);
    for (const host of [`${byte}a`, `a${byte}`, `a${byte}${byte}b`]) {
      const bytes = Buffer.from(`GET http://${host}/v2/x HTTP/1.1\r\nHost: a\r\n\r\n`, "latin1");
      if (await expectSameAsNode(bytes)) taken += 1;
    }
  }
  expect(taken).toBeGreaterThan(200);
});

test("a hostile line costs no more than its length", () => {
  // Would take minutes if a character could be taken by more than one part of the pattern.
  const line = `X:${" ".repeat(8_000)}`;
  for (let i = 0; i < 200; i += 1) expect(read(`${head}${line}${line}\0\r\n\r\n`)).toBeNull();
  const list = `${head}Connection: ${", \t ".repeat(4_000)}x\r\n\r\n`;
  for (let i = 0; i < 200; i += 1) expect(read(list)).not.toBeNull();
});

test("every case of the request corpus that it takes, Node reads the same", async () => {
  let taken = 0;
  for (const { bytes } of requestCases) if (await expectSameAsNode(Buffer.from(bytes, "latin1"))) taken += 1;
  expect(taken).toBeGreaterThan(50);
});

test("so does each of 20,000 mutated requests", async () => {
  let taken = 0;
  for (let seed = 0; seed < 20_000; seed += 1) {
    const random = new Random(seed);
    const valid = serialize(validRequest(random, `m${seed}`));
    const mutated = random.oneIn(3) ? mutateLineEnd(random, valid) : mutateBytes(random, valid);
    if (await expectSameAsNode(Buffer.from(mutated, "latin1"))) taken += 1;
  }
  expect(taken).toBeGreaterThan(2_000);
});
