// Fields of one connection end with it, in both directions, and no Connection of anyone's takes away what the gateway
// says.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { sixFields } from "../support/contract-fields.ts";
import { valuesOf } from "../support/raw-client.ts";
import { request, response, stageHttp, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();

const namesOf = (rawHeaders: readonly string[]): string[] =>
  rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());

const hopByHop = [
  ["Keep-Alive", "timeout=5"],
  ["Proxy-Connection", "keep-alive"],
  ["Proxy-Authorization", "Basic c2VjcmV0"],
  ["Proxy-Authenticate", "Basic"],
  ["TE", "trailers"],
  ["Trailer", "X-T"],
  ["Upgrade", "h2c"],
  ["HTTP2-Settings", "AAMAAABkAAQAAP__"],
] as const;

test.each(hopByHop)("a client's %s is not forwarded, named in Connection or not", async (name, value) => {
  const { upstream, connect } = await stageHttp(cleanup);
  const client = connect();
  for (const connection of ["", `Connection: ${name}\r\n`]) {
    client.write(request("/v2/x", { fields: `${connection}${name}: ${value}\r\nX-Stays: 1\r\n` }));
    expect((await client.read()).status).toBe(200);
    const names = namesOf(upstream.received.at(-1)?.rawHeaders ?? []);
    expect(names).not.toContain(name.toLowerCase());
    expect(names).toContain("x-stays");
  }
});

test("what a client names in Connection goes, in any case, list or line", async () => {
  const { upstream, connect } = await stageHttp(cleanup);
  const client = connect();
  const named = "X-One: 1\r\nx-two: 2\r\nX-THREE: 3\r\nX-Four: 4\r\n";
  client.write(request("/v2/x", { fields: `Connection: x-one ,, X-TWO\r\nconnection:x-three\r\n${named}` }));
  expect((await client.read()).status).toBe(200);
  const names = namesOf(upstream.received[0]?.rawHeaders ?? []);
  for (const gone of ["x-one", "x-two", "x-three"]) expect(names).not.toContain(gone);
  expect(names).toContain("x-four");
});

test("naming everything the gateway adds in Connection takes none of it away, nor the message's length", async () => {
  const { upstream, connect } = await stageHttp(cleanup);
  const client = connect();
  const added = ["Host", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Via", "X-Request-Id"];
  const fields = `Connection: ${added.join(", ")}, Content-Length, close\r\nContent-Length: 2\r\n`;
  expect((await client.ask(request("/v2/x", { method: "POST", fields, body: "hi" }))).status).toBe(200);
  const received = upstream.received[0];
  for (const name of added) expect(valuesOf(received?.rawHeaders ?? [], name)).toHaveLength(1);
  expect(valuesOf(received?.rawHeaders ?? [], "Content-Length")).toEqual(["2"]);
  expect(received?.body.toString()).toBe("hi");
});

test("Connection: Content-Length does not let a body be read as a request", async () => {
  const { upstream, connect } = await stageHttp(cleanup);
  const client = connect();
  const inner = request("/v2/smuggled");
  const fields = `Connection: Content-Length\r\nContent-Length: ${inner.length}\r\n`;
  expect((await client.ask(request("/v2/x", { method: "POST", fields, body: inner }))).status).toBe(200);
  expect(upstream.received.map(({ target }) => target)).toEqual(["/v2/x"]);
});

test("an upstream's hop-by-hop fields end at the gateway, and so do those it names in Connection", async () => {
  const own =
    "Keep-Alive: timeout=1\r\nProxy-Authenticate: Basic\r\nProxy-Connection: x\r\nTE: x\r\nTrailer: X-T\r\nUpgrade: h2c\r\n";
  const named =
    "Connection: X-Secret, keep-alive\r\nconnection: x-other\r\nX-Secret: 1\r\nX-OTHER: 2\r\nX-Stays: 3\r\n";
  const { connect } = await stageRaw(cleanup, (socket) => void socket.write(response("ok", own + named)));
  const client = connect();
  const { rawHeaders } = await client.ask(request("/v2/x"));
  const names = namesOf(rawHeaders);
  for (const gone of ["proxy-authenticate", "proxy-connection", "te", "trailer", "upgrade", "x-secret", "x-other"]) {
    expect(names).not.toContain(gone);
  }
  expect(names).toContain("x-stays");
  // The gateway's own, of its connection to the client.
  expect(valuesOf(rawHeaders, "Keep-Alive")).toEqual(["timeout=620"]);
  expect(valuesOf(rawHeaders, "Connection")).toEqual(["keep-alive"]);
});

test("an upstream that names the gateway's fields in Connection takes none of them away, nor the body's length", async () => {
  const fields = `Connection: ${sixFields.join(", ")}, Date, Content-Length\r\n`;
  const { connect } = await stageRaw(cleanup, (socket) => void socket.write(response("ok", fields)));
  const { rawHeaders, body, endedByClose } = await connect().ask(request("/v2/x"));
  for (const name of [...sixFields, "Date", "Content-Length"]) expect(valuesOf(rawHeaders, name)).toHaveLength(1);
  expect({ body, endedByClose }).toEqual({ body: "ok", endedByClose: false });
});

test("an upstream's Connection: close ends its connection, not the client's", async () => {
  const { connect, upstream } = await stageRaw(
    cleanup,
    (socket) => void socket.end(response("ok", "Connection: close\r\n")),
  );
  const client = connect();
  for (let i = 0; i < 3; i += 1) {
    const { status, rawHeaders } = await client.ask(request("/v2/x"));
    expect(status).toBe(200);
    expect(valuesOf(rawHeaders, "Connection")).toEqual(["keep-alive"]);
  }
  expect(upstream.bytes().match(/GET/g)).toHaveLength(3);
});
