import { once } from "node:events";
import { Agent, get as httpGet, type IncomingMessage } from "node:http";
import { connect, createServer } from "node:net";
import { buffer, text } from "node:stream/consumers";
import { describe, expect, test } from "vitest";
import { BackendListenError, type FinanceBackend, startFinanceBackend } from "../../src/finance-backend/server.ts";
import { within } from "../support/eventually.ts";
import { listen } from "../support/loopback-server.ts";
import { authorization, rawExchange, startInMemory, useBackend } from "./support.ts";

const { backend, send } = useBackend();
const head = (line: string, ...fields: string[]): string =>
  `${[line, "Host: backend", "Authorization: Bearer x", ...fields].join("\r\n")}\r\n\r\n`;
const last = "Connection: close";
const statusOf = (answer: string): number => Number(/^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1]);
const bodyOf = (answer: string): unknown => JSON.parse(answer.slice(answer.indexOf("\r\n\r\n") + 4));
const problem = (message: string, errMsg: string): unknown => ({ message, errors: [{ errMsg }] });

describe("every answer", () => {
  const paths = ["/v2/transactions", "/v2/me", "/v2/categories", "/v1/me", "/v2/transactions?limit=0", "/nowhere"];
  test.each(paths)("of %s is JSON of a known length", async (path) => {
    const response = await send(path);
    const bytes = new Uint8Array(await response.arrayBuffer());
    expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(response.headers.get("content-length")).toBe(String(bytes.length));
    expect(response.headers.get("cache-control")).toBe(response.ok ? "private" : "no-store");
    expect(JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes))).toBeTypeOf("object");
  });

  test.each(paths)("to HEAD %s is that to GET without its body", async (path) => {
    const [get, withoutBody] = [await send(path), await send(path, { method: "HEAD" })];
    const fields = (response: Response): unknown =>
      ["content-type", "content-length", "cache-control", "etag"].map((name) => response.headers.get(name));
    expect([withoutBody.status, fields(withoutBody)]).toEqual([get.status, fields(get)]);
    expect((await get.arrayBuffer()).byteLength).toBeGreaterThan(0);
    const raw = await rawExchange(backend(), head(`HEAD ${path} HTTP/1.1`, last));
    expect(raw.endsWith("\r\n\r\n")).toBe(true);
  });

  test("to OPTIONS is 204 and says what is allowed", async () => {
    const response = await send("/v2/crypto/synced/33004/refresh", { method: "OPTIONS" });
    expect([response.status, response.headers.get("allow")]).toEqual([204, "POST, OPTIONS"]);
  });
});

describe("request bodies", () => {
  const refresh = "POST /v2/crypto/synced/33004/refresh HTTP/1.1";
  const tooLarge = problem("Content Too Large", "The request body is larger than 65536 bytes.");

  test("are taken off the connection, so that the next request on it is served", async () => {
    const first = `${head(refresh, "Content-Length: 65536")}${"x".repeat(65_536)}`;
    const second = `${head(refresh, "Transfer-Encoding: chunked")}5\r\nhello\r\n0\r\n\r\n`;
    const third = `${head("GET /v2/me HTTP/1.1", "Content-Length: 3")}abc`;
    const answer = await rawExchange(backend(), first + second + third + head("GET /v2/me HTTP/1.1", last));
    expect(answer.match(/HTTP\/1\.1 200 OK/g)).toHaveLength(4);
  });

  test("are refused by their announced length before they are sent", async () => {
    const answer = await rawExchange(backend(), head(refresh, "Content-Length: 65537"));
    expect([statusOf(answer), bodyOf(answer)]).toEqual([413, tooLarge]);
    expect(answer).toMatch(/\r\nconnection: close\r\n/i);
  });

  test("are refused at the bound when they announce none", async () => {
    const chunk = `10001\r\n${"x".repeat(0x10001)}\r\n`;
    const answer = await rawExchange(backend(), head(refresh, "Transfer-Encoding: chunked") + chunk);
    expect([statusOf(answer), bodyOf(answer)]).toEqual([413, tooLarge]);
  });

  test("that stop in the middle harm nobody else", async () => {
    const socket = connect(backend().port, backend().host);
    socket.write(`${head(refresh, "Content-Length: 100")}half`);
    await once(socket, "connect");
    socket.destroy();
    expect((await send("/v2/me")).status).toBe(200);
  });
});

describe("requests on the wire", () => {
  test("in absolute form are served", async () => {
    const answer = await rawExchange(backend(), head("GET http://elsewhere/v2/me?x=1 HTTP/1.1", last));
    expect(statusOf(answer)).toBe(200);
  });

  test.each([
    ["bytes that are no HTTP", "hello\r\n\r\n"],
    ["a malformed field", "GET /v2/me HTTP/1.1\r\nHost: a\r\nbad field: x\r\n\r\n"],
    ["no Host", "GET /v2/me HTTP/1.1\r\nAuthorization: Bearer x\r\nConnection: close\r\n\r\n"],
  ])("%s are 400", async (_name, bytes) => {
    const answer = await rawExchange(backend(), bytes);
    const expected = problem("Bad Request", "The request is not well-formed HTTP.");
    expect([statusOf(answer), bodyOf(answer)]).toEqual([400, expected]);
  });

  test("a head of 20,000 bytes is 431", async () => {
    const answer = await rawExchange(backend(), head("GET /v2/me HTTP/1.1", `X-Long: ${"x".repeat(20_000)}`));
    const expected = problem("Request Header Fields Too Large", "The request headers are too large.");
    expect([statusOf(answer), bodyOf(answer)]).toEqual([431, expected]);
  });
});

describe("starting and closing", () => {
  /** Less than the 5 s after which the server ends every connection. */
  const atOnceMs = 4_000;

  test("the url is that of the port that was picked", async () => {
    expect(backend().url).toBe(`http://127.0.0.1:${backend().port}`);
    expect(backend().port).toBeGreaterThan(0);
  });

  test("a port in use is refused with the address and the reason", async () => {
    const taken = createServer();
    await listen(taken);
    const address = taken.address();
    const port = typeof address === "object" ? (address?.port ?? 0) : 0;
    const start = startFinanceBackend({ host: "127.0.0.1", port, database: null });
    await expect(start).rejects.toThrow(
      new BackendListenError(`cannot listen on 127.0.0.1:${port}: the port is in use`),
    );
    taken.close();
  });

  test("idle connections end at once: kept alive, never used, or with half a head", async () => {
    const server = await startInMemory();
    const agent = new Agent({ keepAlive: true });
    const answer = await requestOver(agent, server);
    const { socket: keptAlive } = answer;
    await buffer(answer);
    const silent = connect(server.port, server.host);
    const half = connect(server.port, server.host);
    half.write("GET /v2/me HT");
    await Promise.all([once(silent, "connect"), once(half, "connect")]);
    // Connections are accepted in their order: with this answer the server has seen the others too.
    await (await fetch(`${server.url}/v2/me`, { headers: authorization })).text();
    const ended = Promise.all([silent, half, keptAlive].map((socket) => once(socket, "close")));
    await within("the end of all", Promise.all([server.close(), ended]), atOnceMs);
    await expect(fetch(`${server.url}/v2/me`)).rejects.toThrow("fetch failed");
    agent.destroy();
  });

  test("a request under way is answered, as the last on its connection", async () => {
    const server = await startInMemory();
    const socket = connect(server.port, server.host);
    socket.write(head("POST /v2/crypto/synced/33004/refresh HTTP/1.1", "Content-Length: 4", "Expect: 100-continue"));
    const [goOn] = await once(socket, "data");
    expect(String(goOn)).toMatch(/^HTTP\/1\.1 100 Continue/);
    const closed = server.close();
    socket.write("body");
    const answer = await within("the end of the connection", text(socket), atOnceMs);
    expect(statusOf(answer)).toBe(200);
    expect(answer).toMatch(/\r\nconnection: close\r\n/i);
    await closed;
    await server.close();
  });
});

test("answers that are still being read when closing begins are read to their end, and the connection ends", async () => {
  const server = await startInMemory();
  const socket = connect(server.port, server.host);
  socket.write(head("GET /v2/transactions?limit=2000 HTTP/1.1").repeat(12));
  await once(socket, "readable");
  const closed = server.close();
  // More than the buffers on the way hold: some of it is still with the server when closing begins.
  const answers = (await text(socket)).split(/(?=HTTP\/1\.1 )/);
  expect(answers.length).toBeGreaterThan(1);
  for (const answer of answers) expect([statusOf(answer), bodyOf(answer)]).toMatchObject([200, { has_more: true }]);
  await closed;
});

function requestOver(agent: Agent, { host, port }: FinanceBackend): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    httpGet({ agent, host, port, path: "/v2/me", headers: authorization }, resolve).once("error", reject);
  });
}
