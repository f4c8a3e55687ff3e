// Answers that come before the request's body is whole: the client gets to read all of it while it still writes, and
// its connection ends, since the rest of a body must never be read as a request.
import type { Socket } from "node:net";
import { describe, expect, test, vi } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, turns, within } from "../support/eventually.ts";
import { upstreamConnections } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { request, response, stageHttp, stageRaw } from "../support/stage.ts";
import { holdIntervals } from "../support/timers.ts";

const cleanup = useCleanup();
const size = 8 * 1024 * 1024;
const announced = { method: "POST", fields: `Content-Length: ${size}\r\n` };
const policy = (limit: number) => [slidingPolicy({ limit, windowMs: 60_000 })];

/** Keeps writing until all is sent or the connection ends, as clients do that read only afterwards. */
function keepSending(client: RawConnection): void {
  const piece = Buffer.alloc(64 * 1024, "x");
  let sent = 0;
  const more = (): void => {
    while (sent < size && client.socket.writable) {
      sent += piece.length;
      if (!client.socket.write(piece)) {
        client.socket.once("drain", more);
        return;
      }
    }
  };
  more();
}

test.each([
  ["429", 429, request("/v2/x", announced), { policies: policy(0) }],
  ["401", 401, `POST /v2/x HTTP/1.1\r\nHost: a\r\nContent-Length: ${size}\r\n\r\n`, {}],
  ["404", 404, request("/x", announced), {}],
  ["413", 413, request("/v2/x", announced), { maxBodyBytes: 1024 }],
  ["501", 501, request("/v2/x", { method: "POST", fields: "Transfer-Encoding: gzip, chunked\r\n" }), {}],
  ["400", 400, request("/v2/x", { method: "POST", fields: "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n" }), {}],
] as const)("a %s to a large body is read whole by a client that keeps sending", async (_, status, head, overrides) => {
  const { upstream, connect } = await stageHttp(cleanup, undefined, overrides);
  for (let i = 0; i < 5; i += 1) {
    const client = connect().write(head);
    keepSending(client);
    const answer = await client.read();
    expect(answer.status).toBe(status);
    expect(valuesOf(answer.rawHeaders, "Connection")).toEqual(["close"]);
    expect(answer.body).toMatch(/\]\}$/);
    expect(await within("the connection ends", client.closed)).toBe("end");
    expect(client.rest).toBe("");
  }
  expect(upstream.hits()).toBe(0);
});

test("a chunked body that grows too large is answered 413 while the client keeps sending", async () => {
  const { upstream, connect } = await stageHttp(cleanup, undefined, { maxBodyBytes: 100_000 });
  const client = connect();
  client.write(
    request("/v2/x", { method: "POST", fields: "Transfer-Encoding: chunked\r\n", body: `${size.toString(16)}\r\n` }),
  );
  keepSending(client);
  expect((await client.read()).status).toBe(413);
  expect(await within("the connection ends", client.closed)).toBe("end");
  expect(upstream.received).toEqual([]);
});

test.each(["keep-alive", "close"])(
  "an upstream's early answer (%s) reaches a client that is still sending, whole, and ends its connection",
  async (connection) => {
    const body = "no".repeat(500_000);
    const answered = new Set<unknown>();
    const { connect, gateway } = await stageRaw(cleanup, (socket) => {
      if (answered.has(socket)) return;
      answered.add(socket);
      const bytes = response(body, `Connection: ${connection}\r\n`, "403 Forbidden");
      if (connection === "close") socket.end(bytes);
      else socket.write(bytes);
    });
    const client = connect().write(request("/v2/x", announced));
    keepSending(client);
    const answer = await client.read();
    expect(answer).toMatchObject({ status: 403, body });
    expect(valuesOf(answer.rawHeaders, "Connection")).toEqual(["close"]);
    expect(await within("the connection ends", client.closed)).toBe("end");
    expect(client.rest).toBe("");
    await eventually("its slot is free", async () => (await upstreamConnections(gateway)).active === 0);
  },
);

test("after an early answer the next request finds a sound upstream connection", async () => {
  let requests = 0;
  const { connect } = await stageRaw(
    cleanup,
    (socket, data) => {
      if (!/^(GET|POST) /.test(data.toString("latin1"))) return;
      requests += 1;
      socket.write(response(`answer ${requests}`));
    },
    { upstream: { maxConnections: 1, connectTimeoutMs: 30_000 } },
  );
  const client = connect().write(request("/v2/x", { method: "POST", fields: "Content-Length: 100\r\n", body: "half" }));
  expect((await client.read()).body).toBe("answer 1");
  expect((await connect().ask(request("/v2/y"))).body).toBe("answer 2");
});

test("an early answer that streams on while the body still comes carries both to their ends", async () => {
  const { upstream, connect } = await stageRaw(cleanup, (socket, data) => {
    const text = data.toString("latin1");
    if (text.startsWith("POST")) socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
    if (text.endsWith("last")) socket.write("4\r\nlast\r\n0\r\n\r\n");
  });
  const client = connect().write(request("/v2/x", { method: "POST", fields: "Content-Length: 8\r\n", body: "half" }));
  expect((await client.readHead()).status).toBe(200);
  await eventually("the answer has begun", () => client.rest.includes("first"));
  client.write("last");
  await eventually("the answer has ended", () => client.rest.endsWith("4\r\nlast\r\n0\r\n\r\n"));
  expect(upstream.bytes().endsWith("halflast")).toBe(true);
  expect(await within("the connection ends", client.closed)).toBe("end");
});

describe("an answer that has begun before its request is whole", () => {
  const half = (socket: Socket, data: Buffer): void => {
    if (data.includes("POST ")) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf");
    if (data.includes("rest")) socket.write("half");
  };
  const first = request("/v2/x", { method: "POST", fields: "Content-Length: 9\r\n", body: "first" });

  test("waits with its client for the rest of it, longer than bodyTimeout", async () => {
    holdIntervals(cleanup);
    const { connect, upstream } = await stageRaw(cleanup, half, { upstream: { bodyTimeoutMs: 100 } });
    const client = connect().write(first);
    expect((await client.readHead()).status).toBe(200);
    // Several times the timeout.
    for (let ticks = 0; ticks < 10; ticks += 1) {
      vi.advanceTimersByTime(100);
      await turns(2);
    }
    client.write("rest");
    await eventually("the answer is whole", () => client.rest === "halfhalf" || client.ending !== null);
    expect([client.rest, upstream.bytes().endsWith("firstrest")]).toEqual(["halfhalf", true]);
  });

  test("breaks off when the rest does not come within timeouts.body", async () => {
    const { connect, upstream } = await stageRaw(cleanup, half, { timeouts: { bodyMs: 1_000 } });
    const client = connect().write(first);
    expect((await client.readHead()).status).toBe(200);
    await within("the connection breaks", client.closed);
    expect(client.rest).toBe("half");
    await eventually("the upstream's does too", () => upstream.sockets.size === 0);
  });
});
