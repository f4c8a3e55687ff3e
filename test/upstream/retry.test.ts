// When a request is sent twice: only without a body, only GET, HEAD or QUERY, only when an idle connection was closed under it
// before a byte of the response, and only once. Everything else may have been done already.
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { request, response, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();

/**
 * Answers the first request of a connection, and does `then` to every further one: the idle close, as the request sees
 * it.
 */
function closingOnReuse(then: (socket: Socket) => void) {
  const answered = new Set<Socket>();
  const hits: string[] = [];
  const onData = (socket: Socket, data: Buffer): void => {
    const match = /^([A-Z]+) (\S+) /.exec(data.toString("latin1"));
    if (match !== null) hits.push(`${match[1]} ${match[2]}`);
    if (answered.has(socket)) then(socket);
    else if (match?.[1] === "HEAD")
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n");
    else socket.write(response("ok"));
    answered.add(socket);
  };
  return { hits, onData };
}

const end = (socket: Socket): void => void socket.end();
const reset = (socket: Socket): void => void socket.resetAndDestroy();
const two = { fields: "Content-Length: 2\r\n", body: "hi" };

const retried = [
  ["GET", {}, "closed", end],
  ["GET", {}, "reset", reset],
  ["GET", { fields: "Content-Length: 0\r\n" }, "closed", end],
  ["QUERY", {}, "closed", end],
  ["QUERY", { fields: "Content-Length: 0\r\n" }, "closed", end],
] as const;

test.each(retried)(
  "a %s (%o) that meets an idle connection being %s is sent once more, and served",
  async (method, more, _, then) => {
    const { hits, onData } = closingOnReuse(then);
    const { connect } = await stageRaw(cleanup, onData, { upstream: { maxConnections: 1 } });
    const client = connect();
    for (let i = 1; i <= 5; i += 1) {
      expect((await client.ask(request(`/v2/${i}`, { method, ...more }), { method })).status).toBe(200);
    }
    const once = (i: number): string => `${method} /v2/${i}`;
    // A retried request is the first on its new connection, so the next one is retried again.
    expect(hits).toEqual([once(1), once(2), once(2), once(3), once(3), once(4), once(4), once(5), once(5)]);
  },
);

test("a HEAD that meets an idle connection being closed is sent once more, and served", async () => {
  const { hits, onData } = closingOnReuse(end);
  const { connect } = await stageRaw(cleanup, onData, { upstream: { maxConnections: 1 } });
  const client = connect();
  // A HEAD leaves no idle connection behind, so a GET does.
  for (const method of ["GET", "HEAD"]) {
    expect((await client.ask(request("/v2/x", { method }), { method })).status).toBe(200);
  }
  expect(hits).toEqual(["GET /v2/x", "HEAD /v2/x", "HEAD /v2/x"]);
});

const once = [
  ["a POST", { method: "POST", ...two }],
  ["a POST without a body", { method: "POST" }],
  ["a PUT", { method: "PUT", ...two }],
  ["a DELETE", { method: "DELETE" }],
  ["a QUERY with a body", { method: "QUERY", ...two }],
  ["a QUERY with a chunked body", { method: "QUERY", fields: "Transfer-Encoding: chunked\r\n", body: "0\r\n\r\n" }],
  ["an OPTIONS", { method: "OPTIONS" }],
  ["a GET with a body", { method: "GET", ...two }],
  ["a QUERY with a body", { method: "QUERY", ...two }],
  ["a GET with a chunked body", { method: "GET", fields: "Transfer-Encoding: chunked\r\n", body: "0\r\n\r\n" }],
] as const;

test.each(once)("%s that meets an idle close is a 502, never sent twice", async (_, options) => {
  const { hits, onData } = closingOnReuse(end);
  // No such request is sent on a connection that has been idle for a second.
  const { connect } = await stageRaw(cleanup, onData, { upstream: { maxConnections: 1 } }, new FakeClock());
  const client = connect();
  expect((await client.ask(request("/v2/1"))).status).toBe(200);
  expect((await client.ask(request("/v2/2", options))).status).toBe(502);
  expect(hits.filter((hit) => hit.endsWith("/v2/2"))).toHaveLength(1);
});

test.each([
  ["after the first byte of a response", (socket: Socket) => void socket.end("H")],
  ["after a whole head", (socket: Socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")],
  ["after an interim response", (socket: Socket) => void socket.end("HTTP/1.1 103 Early Hints\r\n\r\n")],
  ["by nonsense", (socket: Socket) => void socket.write("nonsense\r\n\r\n")],
])("a GET is not sent again when a reused connection is broken %s", async (_, then) => {
  const { hits, onData } = closingOnReuse(then);
  const { connect } = await stageRaw(cleanup, onData, { upstream: { maxConnections: 1 } });
  const client = connect();
  expect((await client.ask(request("/v2/1"))).status).toBe(200);
  client.write(request("/v2/2"));
  const readStatus = (): Promise<number | string> =>
    client.read().then(
      (answer) => answer.status,
      () => "broken off",
    );
  const first = await readStatus();
  const status = first === 103 ? await readStatus() : first;
  expect([502, "broken off"]).toContain(status);
  expect(hits).toEqual(["GET /v2/1", "GET /v2/2"]);
});

test("a GET that times out on a reused connection is not sent again", async () => {
  const { hits, onData } = closingOnReuse(() => {});
  const { connect } = await stageRaw(cleanup, onData, { upstream: { maxConnections: 1, responseTimeoutMs: 300 } });
  const client = connect();
  expect((await client.ask(request("/v2/1"))).status).toBe(200);
  expect((await client.ask(request("/v2/2"))).status).toBe(504);
  expect(hits).toEqual(["GET /v2/1", "GET /v2/2"]);
});

test.each([
  ["closed", end],
  ["reset", reset],
])("a GET on a fresh connection that is %s is a 502 after one hit", async (_, then) => {
  const { upstream, connect } = await stageRaw(cleanup, then);
  expect((await connect().ask(request("/v2/1"))).status).toBe(502);
  expect(upstream.bytes().match(/GET/g)).toHaveLength(1);
});

test("a GET is sent twice at most, even if the second connection closes as well", async () => {
  let requests = 0;
  const { connect } = await stageRaw(
    cleanup,
    (socket) => {
      requests += 1;
      if (requests === 1) socket.write(response("ok"));
      else socket.end();
    },
    { upstream: { maxConnections: 1 } },
  );
  const client = connect();
  expect((await client.ask(request("/v2/1"))).status).toBe(200);
  expect((await client.ask(request("/v2/2"))).status).toBe(502);
  expect(requests).toBe(3);
});
