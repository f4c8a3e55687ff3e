// Responses that are unusual and right, older than HTTP/1.1, or interim: passed on with the meaning they have.
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { within } from "../support/eventually.ts";
import { valuesOf } from "../support/raw-client.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { request, response, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();

async function expectServed(client: RawConnection): Promise<void> {
  expect((await client.ask("GET /elsewhere HTTP/1.1\r\nHost: a\r\n\r\n")).status).toBe(404);
}

async function answeredWith(bytes: string, bytesOfRequest = request("/v2/x")) {
  const staged = await stageRaw(cleanup, (socket) => void socket.write(bytes));
  const client = staged.connect().write(bytesOfRequest);
  return { ...staged, client };
}

test.each([0, 5])("a 204 loses its Content-Length of %i and keeps the connection", async (length) => {
  const { client } = await answeredWith(`HTTP/1.1 204 No Content\r\nContent-Length: ${length}\r\nX-A: 1\r\n\r\n`);
  const { status, rawHeaders } = await client.read();
  expect(status).toBe(204);
  expect(valuesOf(rawHeaders, "Content-Length")).toEqual([]);
  expect(valuesOf(rawHeaders, "Transfer-Encoding")).toEqual([]);
  expect(valuesOf(rawHeaders, "X-A")).toEqual(["1"]);
  await expectServed(client);
});

test("a 304 keeps the Content-Length it speaks of, without a body", async () => {
  const { client } = await answeredWith('HTTP/1.1 304 Not Modified\r\nContent-Length: 1234\r\nETag: "a"\r\n\r\n');
  const { status, rawHeaders } = await client.read();
  expect(status).toBe(304);
  expect(valuesOf(rawHeaders, "Content-Length")).toEqual(["1234"]);
  await expectServed(client);
});

test.each([
  ["204 No Content", "Content-Length: 5\r\n"],
  ["204 No Content", "Transfer-Encoding: chunked\r\n"],
  ["304 Not Modified", "Content-Length: 5\r\n"],
])("what comes late behind a %s with %j answers nobody else", async (statusLine, fields) => {
  const served = new Set<Socket>();
  const { connect } = await stageRaw(cleanup, (socket) => {
    // The content that was announced, as the next request comes.
    if (served.has(socket)) socket.write(response("stale") + response("fresh"));
    else if (served.size > 0) socket.write(response("fresh"));
    else socket.write(`HTTP/1.1 ${statusLine}\r\n${fields}\r\n`);
    served.add(socket);
  });
  const client = connect();
  expect((await client.ask(request("/v2/x"))).status).toBe(Number(statusLine.slice(0, 3)));
  expect((await client.ask(request("/v2/y"))).body).toBe("fresh");
});

test.each(["Content-Length: 1234\r\n", "Transfer-Encoding: chunked\r\n", ""])(
  "a response to HEAD with %j has its fields and no body",
  async (fields) => {
    const { client } = await answeredWith(`HTTP/1.1 200 OK\r\n${fields}\r\n`, request("/v2/x", { method: "HEAD" }));
    const { status, rawHeaders } = await client.read({ method: "HEAD" });
    expect(status).toBe(200);
    expect(valuesOf(rawHeaders, "Content-Length")).toEqual(fields.startsWith("Content") ? ["1234"] : []);
    await expectServed(client);
  },
);

test("a 200 with an empty body stays one", async () => {
  const { client } = await answeredWith(response(""));
  expect(await client.read()).toMatchObject({ status: 200, body: "", endedByClose: false });
  await expectServed(client);
});

test("an HTTP/1.0 upstream's response ends with its connection, the client's connection stays", async () => {
  const { connect } = await stageRaw(cleanup, (socket) => void socket.end("HTTP/1.0 200 OK\r\nX-A: 1\r\n\r\nbody"));
  const client = connect();
  expect(await client.ask(request("/v2/x"))).toMatchObject({ status: 200, body: "body", endedByClose: false });
  await expectServed(client);
});

test("an HTTP/1.0 client gets a body it can read to the end of the connection, never chunks", async () => {
  const { client } = await answeredWith(
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
    "GET /v2/x HTTP/1.0\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n",
  );
  expect(await client.read()).toMatchObject({ status: 200, body: "body", endedByClose: true });
  expect(await within("the connection ends", client.closed)).toBe("end");
});

test("an HTTP/1.0 client that asks to keep its connection keeps it when the length is known", async () => {
  const { client } = await answeredWith(
    response("ok"),
    "GET /v2/x HTTP/1.0\r\nHost: a\r\nAuthorization: Bearer t\r\nConnection: keep-alive\r\n\r\n",
  );
  const { body, rawHeaders } = await client.read();
  expect(body).toBe("ok");
  expect(valuesOf(rawHeaders, "Connection")).toEqual(["keep-alive"]);
  await expectServed(client);
});

test("a 100 Continue that nobody asked for is not passed on, the response behind it is", async () => {
  const { client } = await answeredWith(
    `HTTP/1.1 100 Continue\r\n\r\n${response("ok")}`,
    request("/v2/x", { method: "POST", fields: "Content-Length: 2\r\n", body: "hi" }),
  );
  expect(await client.read()).toMatchObject({ status: 200, body: "ok" });
});

test("an upstream's Retry-After on a 503 passes as often as it is there", async () => {
  const { client } = await answeredWith(response("", "Retry-After: 1\r\nRetry-After: 2\r\n", "503 Down"));
  expect(valuesOf((await client.read()).rawHeaders, "Retry-After")).toEqual(["1", "2"]);
});

test.each(["301 Moved", "413 Too Large", "503 Down", "200 OK"])(
  "an upstream's Retry-After on %s passes as it is",
  async (line) => {
    const { client } = await answeredWith(response("", "Retry-After: 1\r\n", line));
    expect(valuesOf((await client.read()).rawHeaders, "Retry-After")).toEqual(["1"]);
  },
);
