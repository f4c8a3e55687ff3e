// Connections of HTTP/1 over real sockets: how responses are framed, in which order requests have their turn, and when a
// connection ends.
import { createServer } from "node:http";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, standsStill, within } from "../support/eventually.ts";
import type { Overrides } from "../support/gateway.ts";
import { listen } from "../support/loopback-server.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { stageHttp } from "../support/stage.ts";
import type { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const fields = "Host: a\r\nAuthorization: Bearer t\r\n";
const get = (target: string, method = "GET"): string => `${method} ${target} HTTP/1.1\r\n${fields}\r\n`;
const post = (target: string, body: string): string =>
  `POST ${target} HTTP/1.1\r\n${fields}Content-Length: ${body.length}\r\n\r\n${body}`;
async function start(respond: Parameters<typeof startUpstream>[0], overrides: Overrides = {}) {
  const { upstream, gateway } = await stageHttp(cleanup, respond, overrides);
  const connection = cleanup(new RawConnection(gateway.traffic.port));
  return { upstream, gateway, connection };
}

test("answers are framed by length, in chunks, by the head alone", async () => {
  const { connection } = await start((req, res, body) => {
    if (req.url === "/v2/chunks") {
      res.flushHeaders();
      res.write("first");
      // In a packet of its own.
      setImmediate(() => setImmediate(() => res.end("second")));
    } else if (req.url === "/v2/short-chunk") {
      res.flushHeaders();
      res.end("short");
    } else if (req.url === "/v2/204") res.writeHead(204).end();
    else if (req.url === "/v2/304") res.writeHead(304, { "Content-Length": "9" }).end();
    else res.end(`${req.method} ${body}`);
  });
  const exchanges = [
    [get("/v2/length"), "GET", 200, "GET ", "content-length"],
    [post("/v2/length", "hi"), "POST", 200, "POST hi", "content-length"],
    [post("/v2/length", "x".repeat(9_000)), "POST", 200, `POST ${"x".repeat(9_000)}`, "content-length"],
    [get("/v2/chunks"), "GET", 200, "firstsecond", "transfer-encoding"],
    [get("/v2/short-chunk"), "GET", 200, "short", "transfer-encoding"],
    [get("/v2/chunks", "HEAD"), "HEAD", 200, "", null],
    [get("/v2/204"), "GET", 204, "", null],
    [get("/v2/304"), "GET", 304, "", "content-length"],
    [get("/nowhere"), "GET", 404, null, "content-length"],
    [get("/nowhere", "HEAD"), "HEAD", 404, "", "content-length"],
  ] as const;
  for (const [bytes, method, status, body, framing] of exchanges) {
    const answer = await connection.ask(bytes, { method });
    expect(answer.status).toBe(status);
    if (body !== null) expect(answer.body).toBe(body);
    const isFramed = (name: string): boolean => valuesOf(answer.rawHeaders, name).length === 1;
    expect([isFramed("content-length"), isFramed("transfer-encoding")]).toEqual([
      framing === "content-length",
      framing === "transfer-encoding",
    ]);
    expect(valuesOf(answer.rawHeaders, "connection")).toEqual(["keep-alive"]);
    expect(valuesOf(answer.rawHeaders, "date")).toHaveLength(1);
    expect(valuesOf(answer.rawHeaders, "ratelimit-remaining")).toHaveLength(1);
  }
  expect(connection.rest).toBe("");
});

test("a CONNECT that comes while a request is answered is refused in its turn", async () => {
  let release: () => void = () => {};
  const { connection, upstream } = await start((_req, res) => {
    release = () => void res.end();
  });
  connection.write(get("/v2/1"));
  await eventually("it is at the upstream", () => upstream.received.length === 1);
  connection.write("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n");
  release();
  expect((await connection.read()).status).toBe(200);
  expect((await connection.read()).status).toBe(501);
  expect(await within("the connection ends", connection.closed)).toBe("end");
});

test("of what comes while a request is answered, no more is taken than is kept", async () => {
  const { connection, upstream } = await start(() => {});
  connection.write(get("/v2/1"));
  await eventually("it is at the upstream", () => upstream.received.length === 1);
  connection.write(Buffer.alloc(64 * 1024 * 1024, "x"));
  const unsent = (): number => connection.socket.writableLength;
  expect(await standsStill("what is not sent", unsent)).toBeGreaterThan(32 * 1024 * 1024);
});

test("a client that closes its side while it is answered counts as gone; one that is idle is let go", async () => {
  let closed = 0;
  const { connection, upstream, gateway } = await start((_req, res) => {
    res.on("close", () => {
      closed += 1;
    });
  });
  connection.write(get("/v2/1"));
  await eventually("it is at the upstream", () => upstream.received.length === 1);
  connection.socket.end();
  await eventually("the upstream's request is cancelled", () => closed === 1);
  const idle = new RawConnection(gateway.traffic.port);
  expect((await idle.ask(get("/nowhere"))).status).toBe(404);
  idle.socket.end();
  expect(await within("it is closed", idle.closed)).toBe("end");
});

test("the fields about the connection are those that Node's server writes", async () => {
  const { connection } = await start((_req, res) => void res.end());
  const plain = createServer({ keepAliveTimeout: 5_000 }, (_req, res) => void res.end());
  const port = await listen(cleanup(plain));
  const node = cleanup(new RawConnection(port)).write(get("/"));
  connection.write(get("/v2/1"));
  const names = ["connection", "keep-alive"];
  const [own, expected] = [await connection.read(), await node.read()];
  const about = ({ rawHeaders }: { rawHeaders: readonly string[] }) => names.map((name) => valuesOf(rawHeaders, name));
  expect(about(own)[0]).toEqual(about(expected)[0]);
  expect(about(own)[1]?.[0]).toMatch(/^timeout=\d+$/);
});

test("connections of one client one after the other: each request reaches the upstream as it was sent", async () => {
  const { gateway } = await start((req, res) => res.end(`${req.url} ${req.headers.authorization}`));
  const ask = async (target: string, token: string): Promise<string> => {
    const client = cleanup(new RawConnection(gateway.traffic.port));
    client.write(`GET ${target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\nConnection: close\r\n\r\n`);
    const { body } = await client.read({ method: "GET" });
    await within("it is closed", client.closed);
    return body;
  };
  const asked = ["/v2/a t1", "/v2/a t1", "/v2/a t1", "/v2/b t1", "/v2/b t2", "/v2/b t2", "/v2/a t1"];
  const answered: string[] = [];
  for (const one of asked) answered.push(await ask(...(one.split(" ") as [string, string])));
  expect(answered).toEqual(asked.map((one) => one.replace(" ", " Bearer ")));
  // At once.
  const [first, second] = await Promise.all([ask("/v2/a", "t1"), ask("/v2/a", "t1")]);
  expect([first, second]).toEqual(["/v2/a Bearer t1", "/v2/a Bearer t1"]);
});
