// The bytes of an exchange in the access log are those that went over its socket, whatever carries it.
import type { IncomingMessage, ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { stageDecision, token } from "../ext-auth/stage.ts";
import { accessLines, startTestApp } from "../fastify/app.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import type { TestGateway } from "../support/gateway.ts";
import { Http2Client } from "../support/http2-client.ts";
import { slidingPolicy } from "../support/policy.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { request, response, stageHttp, stageRaw } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const withTls = useTls();

type Line = Readonly<Record<string, unknown>>;

interface Carrier {
  readonly client: RawConnection;
  readonly lines: () => readonly Line[];
}

const requestLines = (gateway: Pick<TestGateway, "logLines">) => (): readonly Line[] =>
  gateway.logLines.filter(({ msg }) => msg === "request");

/** As the path says. */
function respond(req: IncomingMessage, res: ServerResponse): void {
  const path = req.url ?? "";
  if (path.endsWith("/304")) res.writeHead(304).end();
  else if (path.endsWith("/204")) res.writeHead(204).end();
  else if (path.endsWith("/chunks")) {
    for (const piece of ["one", "x".repeat(5_000)]) res.write(piece);
    res.end("end");
  } else if (path.endsWith("/large")) res.writeHead(200, { "content-length": 300_000 }).end("x".repeat(300_000));
  else res.writeHead(200, { "content-length": 10 }).end("0123456789");
}

const text = "Content-Type: text/plain\r\n";
const post = (body: string): string =>
  request("/v2/x", { method: "POST", fields: `${text}Content-Length: ${body.length}\r\n`, body });

/** What is sent, and how many bytes of it are the framing of chunks. */
const asked: readonly (readonly [request: string, method: string, framing: number])[] = [
  [request("/v2/x", { fields: "User-Agent: one\r\n" }), "GET", 0],
  [request("/v2/x", { fields: "User-Agent: one\r\n" }), "GET", 0],
  [request("/v2/304"), "GET", 0],
  [request("/v2/204"), "GET", 0],
  [request("/v2/x", { method: "HEAD" }), "HEAD", 0],
  [request("/v2/chunks"), "GET", 0],
  [request("/v2/large"), "GET", 0],
  [post("body"), "POST", 0],
  [post("x".repeat(100_000)), "POST", 0],
];
const chunked = request("/v2/x", {
  method: "POST",
  fields: `${text}Transfer-Encoding: chunked\r\n`,
  body: "4\r\nbody\r\n0\r\n\r\n",
});
const framing = "4\r\n\r\n0\r\n\r\n".length;
const askedInChunks = [[chunked, "POST", framing], ...asked] as const;

async function overGateway(limit: number, isTls = false): Promise<Carrier> {
  const overrides = { policies: [slidingPolicy({ limit, windowMs: 60_000 })] };
  const { ca, overrides: secured } = withTls(overrides);
  const { connect, gateway } = await stageHttp(cleanup, respond, isTls ? secured : overrides);
  const client = connect(isTls ? { tls: { ca, ALPNProtocols: ["http/1.1"] } } : {});
  return { client, lines: requestLines(gateway) };
}

async function overFastify(limit: number): Promise<Carrier> {
  const app = await startTestApp(cleanup, {
    options: { policies: [{ name: "p", limit, window: "60s" }] },
    routes: (routed) =>
      void routed.all("/*", (req, reply) => {
        reply.hijack();
        respond(req.raw, reply.raw);
      }),
  });
  return { client: app.connect(), lines: () => accessLines(app) };
}

test.each([
  ["HTTP/1.1", () => overGateway(askedInChunks.length), askedInChunks],
  ["HTTP/1.1 over TLS", () => overGateway(asked.length, true), asked],
  ["an app of Fastify", () => overFastify(askedInChunks.length), askedInChunks],
])("over %s each exchange has its bytes: bodies with a length, chunked, none, and a 429", async (_, open, table) => {
  const { client, lines } = await open();
  const expected: unknown[] = [];
  for (const [bytes, method, framing] of [...table, [request("/v2/x"), "GET", 0] as const]) {
    const before = client.receivedBytes;
    const { status } = await client.ask(bytes, { method });
    expected.push({ status, bytesReceived: bytes.length - framing, bytesSent: client.receivedBytes - before });
    expect(client.rest).toBe("");
  }
  expect(expected.at(-1)).toMatchObject({ status: 429 });
  await eventually("all are logged", () => lines().length === expected.length);
  expect(lines().map(({ status, bytesReceived, bytesSent }) => ({ status, bytesReceived, bytesSent }))).toEqual(
    expected,
  );
});

test.each([
  ["HTTP/1.1", () => overGateway(100), ""],
  ["a connection that began with chunks", () => overGateway(100), chunked],
  ["an app of Fastify", () => overFastify(100), chunked],
])("over %s pipelined exchanges have their own bytes", async (_, open, first) => {
  const { client, lines } = await open();
  const all = ["/v2/x", "/v2/chunks", "/v2/large", "/v2/304", "/v2/x"].map((path, i) =>
    request(path, { fields: `X-Padding: ${"x".repeat(i * 10)}\r\n` }),
  );
  client.write(first + all.join(""));
  const sent: number[] = [];
  for (const _ of first === "" ? all : [first, ...all]) {
    const before = client.receivedBytes - client.rest.length;
    await client.read();
    sent.push(client.receivedBytes - client.rest.length - before);
  }
  await eventually("all are logged", () => lines().length === sent.length);
  expect(lines().map(({ bytesSent }) => bytesSent)).toEqual(sent);
  expect(
    lines()
      .slice(-5)
      .map(({ bytesReceived }) => bytesReceived),
  ).toEqual(all.map(({ length }) => length));
});

test.each([
  ["HTTP/1.1", ""],
  ["a connection that began with chunks", chunked],
])("over %s interim heads count, and of a response that breaks off what was written of it", async (_, first) => {
  const full = response("0123456789");
  const { connect, gateway } = await stageRaw(cleanup, (socket, data) => {
    if (data.includes("/cut")) socket.end(full.slice(0, -3));
    else if (data.includes("/interim")) socket.write(`HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${full}`);
    else if (data.includes("\r\n0\r\n")) socket.write(full);
  });
  const client = connect();
  const lines = requestLines(gateway);
  if (first !== "") {
    await client.ask(first);
  }
  const before = client.receivedBytes;
  const [interim, cut] = [request("/v2/interim"), request("/v2/cut")];
  client.write(interim);
  expect([(await client.read()).status, (await client.read()).status]).toEqual([103, 200]);
  const between = client.receivedBytes;
  client.write(cut);
  await client.closed;
  await eventually("both are logged", () => lines().length === (first === "" ? 2 : 3));
  expect(lines().slice(-2)).toMatchObject([
    { bytesReceived: interim.length, bytesSent: between - before, complete: true },
    { bytesReceived: cut.length, bytesSent: client.receivedBytes - between, complete: false },
  ]);
});

test("of an upload that the client breaks off the bytes count that came", async () => {
  const { connect, gateway } = await stageRaw(cleanup, () => {});
  const lines = requestLines(gateway);
  for (const fields of ["", "Accept-Encoding: gzip\r\nExpect: 100-continue\r\n"]) {
    const client = connect();
    const bytes = request("/v2/x", { method: "POST", fields: `${fields}Content-Length: 100\r\n` });
    client.write(bytes);
    if (fields !== "") expect((await client.read()).status).toBe(100);
    client.write("0123456789");
    await eventually(
      "the body has come",
      () => gateway.traffic.port > 0 && client.socket.bytesWritten === bytes.length + 10,
    );
    const count = lines().length;
    client.socket.end();
    await eventually("it is logged", () => lines().length === count + 1);
    expect(lines().at(-1)).toMatchObject({
      ...{ status: 0, complete: false, bytesReceived: bytes.length + 10, bytesSent: client.receivedBytes },
    });
  }
});

test("over HTTP/2 heads count as HTTP/1 would send them, and bodies without their frames", async () => {
  const { ca, overrides } = withTls();
  const { gateway } = await stageHttp(cleanup, respond, overrides);
  const { port } = gateway.traffic;
  const client = new Http2Client(port, ca, cleanup);
  let count = 0;
  const lines = requestLines(gateway);
  for (const [method, path, body] of [
    ["GET", "/v2/x", undefined],
    ["POST", "/v2/x", "x".repeat(70_000)],
    ["GET", "/v2/chunks", undefined],
    ["HEAD", "/v2/x", undefined],
    ["GET", "/v2/304", undefined],
    ["GET", "/none", undefined],
  ] as const) {
    const answer = await client.ask({ method, path, ...(body === undefined ? {} : { body }) });
    count += 1;
    await eventually("it is logged", () => lines().length === count);
    const head = `${method} ${path} HTTP/1.1\r\nhost: localhost:${port}\r\nauthorization: Bearer secret-token\r\n\r\n`;
    const fields = answer.rawHeaders.reduce((sum, text) => sum + text.length + 2, 0);
    const reason = { 200: "OK", 304: "Not Modified", 404: "Not Found" }[answer.status] ?? "";
    expect(lines().at(-1)).toMatchObject({
      bytesReceived: head.length + (body?.length ?? 0),
      bytesSent: `HTTP/1.1 ${answer.status} ${reason}\r\n\r\n`.length + fields + answer.body.length,
    });
  }
});

test("what is no request has the bytes of its reply, and a check, whose request an ingress carries, has none", async () => {
  const { connect, gateway } = await stageHttp(cleanup);
  const client = connect().write("nonsense\r\n\r\n");
  await client.closed;
  expect(requestLines(gateway)()).toMatchObject([{ status: 400, bytesReceived: 0, bytesSent: client.receivedBytes }]);
  const { ask, gateway: decider } = await stageDecision(cleanup);
  const fields = `X-Original-Method: GET\r\nX-Original-URI: /v2/x\r\nX-Forwarded-For: 192.0.2.1\r\n${token}`;
  await ask("/auth-request", fields);
  expect(requestLines(decider)()).toMatchObject([{ source: "ext-auth", bytesReceived: null, bytesSent: null }]);
});
