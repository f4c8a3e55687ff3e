// What an upstream says before its answer (RFC 9110, 15.2) reaches the client in order and as it came, to those that
// can read it, and cannot be used to keep a request open for ever. Its bytes: conformance/responses/corpus.ts.
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import { request, response, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();

const hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\nlink: </b>\r\n\r\n";

async function answeredWith(bytes: string, bytesOfRequest = request("/v2/x")) {
  const carrying: Socket[] = [];
  const staged = await stageRaw(cleanup, (socket) => {
    carrying.push(socket);
    socket.write(bytes);
  });
  const client = staged.connect().write(bytesOfRequest);
  return { ...staged, client, carrying };
}

test("an interim response reaches the client while the upstream still works", async () => {
  const { client, upstream } = await answeredWith(hints);
  expect((await client.readHead()).status).toBe(103);
  for (const socket of upstream.sockets) socket.write(response("ok"));
  expect(await client.read()).toMatchObject({ status: 200, body: "ok" });
});

test("each pipelined request has its own interim responses", async () => {
  let requests = 0;
  const { connect } = await stageRaw(cleanup, (socket) => {
    requests += 1;
    socket.write(`HTTP/1.1 103 E\r\nX-For: ${requests}\r\n\r\n${response(`answer ${requests}`)}`);
  });
  const client = connect().write(request("/v2/x").repeat(5));
  for (let i = 1; i <= 5; i += 1) {
    expect((await client.readHead()).rawHeaders).toEqual(["X-For", `${i}`]);
    expect((await client.read()).body).toBe(`answer ${i}`);
  }
});

test("the gateway's 100 comes first, then the upstream's interim response, then the response", async () => {
  const fields = "Expect: 100-continue\r\nContent-Length: 2\r\n";
  const { connect } = await stageRaw(cleanup, (socket) => void socket.write(hints + response("ok")));
  const client = connect().write(request("/v2/x", { method: "POST", fields }));
  expect((await client.readHead()).status).toBe(100);
  client.write("hi");
  expect((await client.readHead()).status).toBe(103);
  expect((await client.read()).status).toBe(200);
});

test("an HTTP/1.0 client gets the response alone", async () => {
  const { client } = await answeredWith(hints + response("ok"), request("/v2/x").replace("HTTP/1.1", "HTTP/1.0"));
  expect(await client.read()).toMatchObject({ status: 200, body: "ok" });
});

test("sixteen interim responses are passed on, a seventeenth ends the upstream's connection: 502", async () => {
  for (const count of [16, 17]) {
    const { client, carrying } = await answeredWith(hints.repeat(count) + response("ok"));
    for (let i = 0; i < 16; i += 1) expect((await client.readHead()).status).toBe(103);
    expect((await client.read()).status).toBe(count === 16 ? 200 : 502);
    if (count === 17) await eventually("its connection is ended", () => carrying.every(({ destroyed }) => destroyed));
  }
});

test("a connection that breaks behind an interim response is a 502", async () => {
  const { connect } = await stageRaw(cleanup, (socket) => void socket.end(hints));
  const client = connect().write(request("/v2/x"));
  expect((await client.readHead()).status).toBe(103);
  expect((await client.read()).status).toBe(502);
});

test("a client that leaves between an interim response and the response cancels the request", async () => {
  const { client, carrying } = await answeredWith(hints);
  expect((await client.readHead()).status).toBe(103);
  client.destroy();
  await eventually("the upstream's connection is ended", () => carrying.every(({ destroyed }) => destroyed));
  await within("the client is gone", client.closed);
});
