// Found by attacking: a reset in a response without length, bodies where servers expect none, and names that must not be
// taken away.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import { valuesOf } from "../support/raw-client.ts";
import { request, response, stageHttp, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();

test("a response without length that ends in a reset breaks off, and is not ended like a whole one", async () => {
  const { connect, upstream } = await stageRaw(cleanup, (socket) => {
    socket.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\npartial body");
  });
  const client = connect().write(request("/v2/x"));
  await eventually("the part has arrived", () => client.rest.includes("partial body"));
  for (const socket of upstream.sockets) socket.resetAndDestroy();
  await within("the connection ends", client.closed);
  expect(client.rest).toContain("partial body");
  expect(client.rest).not.toContain("\r\n0\r\n");
});

test("so it does if the part and the reset are read together", async () => {
  const { connect } = await stageRaw(cleanup, (socket) => {
    socket.write("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\npartial body");
    socket.resetAndDestroy();
  });
  const client = connect().write(request("/v2/x"));
  await within("the connection ends", client.closed);
  expect(client.rest).not.toContain("\r\n0\r\n");
});

test("a reset while the client reads slowly costs that client its answer and nobody the process", async () => {
  const { connect, gateway, upstream } = await stageRaw(cleanup, (socket, data) => {
    if (data.includes("/v2/ok")) socket.write(response("ok"));
    else socket.write(`HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n${"x".repeat(12_000_000)}`);
  });
  for (let i = 0; i < 5; i += 1) {
    const slow = connect();
    slow.socket.pause();
    slow.write(request("/v2/slow"));
    await eventually("it is at the upstream", () => upstream.sockets.size > 0);
    // Another client's whole exchange: time enough for the first one to be held up.
    expect((await connect().ask(request("/v2/ok"))).status).toBe(200);
    for (const socket of upstream.sockets) socket.resetAndDestroy();
    slow.destroy();
  }
  expect((await connect().ask(request("/v2/ok"))).status).toBe(200);
  expect(gateway.logLines.filter(({ msg }) => msg === "internal error")).toEqual([]);
});

test("an HTTP/1.0 client is reset where a plain end would pass half a body off as a whole one", async () => {
  const { connect } = await stageRaw(cleanup, (socket) => {
    socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    setImmediate(() => socket.destroySoon());
  });
  const client = connect().write("GET /v2/x HTTP/1.0\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n");
  expect(await within("the connection ends", client.closed)).toBe("ECONNRESET");
});

test("so it is where the drain breaks its response off", async () => {
  const { connect, gateway } = await stageRaw(
    cleanup,
    (socket) => void socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
    { drain: { timeoutMs: 0 } },
  );
  const client = connect().write("GET /v2/x HTTP/1.0\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n");
  await eventually("half of the body is there", () => client.rest.endsWith("hello"));
  await gateway.close();
  expect(await within("the connection ends", client.closed)).toBe("ECONNRESET");
});

test.each([
  ["GET", "close"],
  ["DELETE", "close"],
  ["POST", "keep-alive"],
  ["PATCH", "keep-alive"],
])("a body on %s: the upstream is told that the connection is %s afterwards", async (method, connection) => {
  const { connect, upstream } = await stageHttp(cleanup);
  const client = connect().write(request("/v2/x", { method, fields: "Content-Length: 2\r\n", body: "hi" }));
  expect((await client.read()).status).toBe(200);
  expect(valuesOf(upstream.received[0]?.rawHeaders ?? [], "connection")).toEqual([connection]);
});

test("a HEAD ends the upstream's connection, so a body sent after it is nobody's answer", async () => {
  const { connect, upstream } = await stageHttp(cleanup);
  expect((await connect().ask(request("/v2/x", { method: "HEAD" }), { method: "HEAD" })).status).toBe(200);
  expect(valuesOf(upstream.received[0]?.rawHeaders ?? [], "connection")).toEqual(["close"]);
});

test("Connection: authorization does not take the token away", async () => {
  const { connect, upstream } = await stageHttp(cleanup);
  expect((await connect().ask(request("/v2/x", { fields: "Connection: authorization\r\n" }))).status).toBe(200);
  expect(valuesOf(upstream.received[0]?.rawHeaders ?? [], "authorization")).toHaveLength(1);
});

test("a body in chunks of one byte arrives whole, and in few pieces", async () => {
  const { connect, upstream } = await stageHttp(cleanup, (_req, res, body) => void res.end(String(body.length)));
  const client = connect().write(request("/v2/x", { method: "POST", fields: "Transfer-Encoding: chunked\r\n" }));
  expect((await client.ask(`${"1\r\nx\r\n".repeat(500)}0\r\n\r\n`)).body).toBe("500");
  expect(upstream.received[0]?.body.equals(Buffer.alloc(500, "x"))).toBe(true);
});
