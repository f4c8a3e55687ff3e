// Order, spelling, number and bytes of fields are the sender's, in both directions. Those of one connection end with it: see also
// conformance/requests/rfc9110.ts and conformance/responses/corpus.ts.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { sixFields } from "../support/contract-fields.ts";
import { valuesOf } from "../support/raw-client.ts";
import { request, response, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();

const lines = [
  "X-Dup: 1",
  "x-dup: 2",
  "X-B: b",
  "X-DUP: 3",
  "Cookie: a=1",
  "cookie: b=2",
  "X-Latin: \xe4\xf6\xfc\xff\x80",
  "X-Utf8: \xc3\xa4",
  "X-Tab: a\tb",
  'X-Quoted: "a, b", c',
  "X-Empty: ",
  "CONTENT-TYPE: Text/Odd",
  "accept-ENCODING: gzip;q=0, br",
  'If-None-Match: W/"x", "y"',
  "Range: bytes=0-1",
  "Cache-Control: no-store",
  "Accept: a",
  "Accept: b",
];

test("a request's fields reach the upstream in their order, spelling, number and bytes", async () => {
  const { upstream, connect } = await stageRaw(cleanup, (socket) => void socket.write(response("ok")));
  expect((await connect().ask(request("/v2/x", { fields: `${lines.join("\r\n")}\r\n` }))).status).toBe(200);
  const received = upstream.bytes().split("\r\n");
  const first = received.indexOf("X-Dup: 1");
  expect(received.slice(first, first + lines.length)).toEqual(lines);
  // Before them stands Host, after them what the gateway adds.
  expect(received.slice(1, first)).toEqual(["Host: api.test", "Authorization: Bearer secret-token"]);
  expect(received.slice(first + lines.length).map((line) => line.split(":")[0])).toEqual([
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "X-Forwarded-Host",
    "Via",
    "X-Request-Id",
    "Connection",
    "",
    "",
  ]);
});

test("a response's fields reach the client in their order, spelling, number and bytes", async () => {
  const own = [
    "Set-Cookie: a=1; Path=/",
    "set-cookie: b=2",
    "SET-COOKIE: a=1",
    "Server: odd/1",
    "WWW-Authenticate: A",
    "www-authenticate: B",
  ];
  const sent = [...lines, ...own, "Content-length: 2", "Age: 5", 'ETag: "x"'];
  const answer = `HTTP/1.1 200 OK\r\n${sent.join("\r\n")}\r\n\r\nok`;
  const { connect } = await stageRaw(cleanup, (socket) => void socket.write(answer, "latin1"));
  const { rawHeaders } = await connect().ask(request("/v2/x"));
  const received = Array.from(
    { length: rawHeaders.length / 2 },
    (_, i) => `${rawHeaders[2 * i]}: ${rawHeaders[2 * i + 1]}`,
  );
  expect(received.slice(0, sent.length)).toEqual(sent);
  const added = received.slice(sent.length).map((line) => line.split(":")[0]);
  expect(added).toEqual(["Date", ...sixFields, "X-Request-Id", "Connection", "Keep-Alive"]);
});

test.each([
  "200 OK",
  "200 ",
  "299 Almost  Fine",
  "200 \xc3\x84hm \xe2\x82\xac",
  "200 \xc4hm",
  "418 I'm a teapot",
  "599 Odd",
])("the status line's %j is passed on", async (statusLine) => {
  const { connect } = await stageRaw(cleanup, (socket) => void socket.write(response("ok", "", statusLine), "latin1"));
  const { status, reason } = await connect().ask(request("/v2/x"));
  expect(`${status} ${reason}`).toBe(statusLine);
});

test("a body's bytes pass unchanged both ways, in either framing", async () => {
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
    .toString("latin1")
    .repeat(300);
  const { upstream, connect } = await stageRaw(cleanup, (socket) => {
    if (upstream.bytes().endsWith(bytes) || upstream.bytes().endsWith("\r\n0\r\n\r\n")) {
      socket.write(response(bytes, "Content-Encoding: gzip\r\n"), "latin1");
    }
  });
  const client = connect();
  client.write(request("/v2/x", { method: "POST", fields: `Content-Length: ${bytes.length}\r\n`, body: bytes }));
  expect((await client.read()).body).toBe(bytes);
  expect(upstream.bytes().endsWith(`\r\n\r\n${bytes}`)).toBe(true);
  const chunk = `${bytes.length.toString(16)}\r\n${bytes}\r\n0\r\n\r\n`;
  client.write(request("/v2/x", { method: "PUT", fields: "Transfer-Encoding: chunked\r\n", body: chunk }));
  expect((await client.read()).body).toBe(bytes);
  expect(upstream.bytes().split("PUT ")[1]).toContain("Transfer-Encoding: chunked");
});

test("an upstream's hop-by-hop fields end at the gateway, and so do those it names in Connection", async () => {
  const own =
    "Keep-Alive: timeout=1\r\nProxy-Authenticate: Basic\r\nProxy-Connection: x\r\nTE: x\r\nTrailer: X-T\r\nUpgrade: h2c\r\n";
  const named =
    "Connection: X-Secret, keep-alive\r\nconnection: x-other\r\nX-Secret: 1\r\nX-OTHER: 2\r\nX-Stays: 3\r\n";
  const { connect } = await stageRaw(cleanup, (socket) => void socket.write(response("ok", own + named)));
  const { rawHeaders } = await connect().ask(request("/v2/x"));
  const names = rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
  for (const gone of ["proxy-authenticate", "proxy-connection", "te", "trailer", "upgrade", "x-secret", "x-other"]) {
    expect(names).not.toContain(gone);
  }
  expect(names).toContain("x-stays");
  // The gateway's own, of its connection to the client.
  expect(valuesOf(rawHeaders, "Keep-Alive")).toEqual(["timeout=620"]);
  expect(valuesOf(rawHeaders, "Connection")).toEqual(["keep-alive"]);
});
