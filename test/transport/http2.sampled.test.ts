// HTTP/2 to clients: the same decisions, counters and answers as HTTP/1.1, over streams that come, break and end by
// themselves.
import { once } from "node:events";
import { constants } from "node:http2";
import type { Socket } from "node:net";
import { describe, expect, test, vi } from "vitest";
import type { Clock } from "../../src/core/clock.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { expectContractFields } from "../support/contract-fields.ts";
import { eventually, within } from "../support/eventually.ts";
import type { Overrides, TestGateway } from "../support/gateway.ts";
import { answerOf, Http2Client } from "../support/http2-client.ts";
import {
  endHeaders,
  FrameClient,
  type FrameClientOptions,
  frameTypes,
  get,
  literals,
  post,
} from "../support/http2-frames.ts";
import { metric, upstreamConnections } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { scaled } from "../support/runs.ts";
import { response, stageHttp, stageRaw } from "../support/stage.ts";
import { holdIntervals } from "../support/timers.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const withTls = useTls();
const lowerCase = (name: string): string => name.toLowerCase();

async function start(options: Overrides = {}, respond?: Parameters<typeof stageHttp>[1]) {
  const { ca, overrides } = withTls(options);
  const staged = await stageHttp(cleanup, respond, overrides);
  return { ...staged, ...clients(staged.gateway, ca) };
}

async function startRaw(onData: (socket: Socket, data: Buffer) => void, options: Overrides = {}, clock?: Clock) {
  const { ca, overrides } = withTls(options);
  const staged = await stageRaw(cleanup, onData, overrides, clock);
  return { ...staged, ...clients(staged.gateway, ca) };
}

function clients({ traffic }: TestGateway, ca: string) {
  return {
    ca,
    client: () => new Http2Client(traffic.port, ca, cleanup),
    frames: (options?: FrameClientOptions) => new FrameClient(traffic.port, { ca }, cleanup, options),
  };
}

const connections = (gateway: TestGateway) => metric(gateway, "headgate_client_connections");

test("a hundred streams at once are a hundred requests", async () => {
  const { client, upstream } = await start();
  const two = client();
  const answers = await Promise.all(Array.from({ length: 101 }, () => two.ask()));
  const statuses = answers.map(({ status }) => status);
  expect(statuses.filter((status) => status === 200)).toHaveLength(100);
  expect(statuses.filter((status) => status === 429)).toHaveLength(1);
  expect(upstream.received).toHaveLength(100);
  for (const { rawHeaders } of answers) expect(valuesOf(rawHeaders, "ratelimit-limit")).toEqual(["100"]);
});

describe("what passes", () => {
  test("fields, method, target and body arrive; the answer's fields come back in their order and number", async () => {
    const { client, upstream } = await startRaw((socket) => {
      const fields = "Set-Cookie: a=1\r\nX-B: \xe9\r\nSet-Cookie: b=2\r\nContent-Type: a\r\nContent-Type: b\r\n";
      socket.write(
        response("ok", `${fields}Connection: X-Gone\r\nX-Gone: 1\r\nKeep-Alive: 1\r\n`, "201 Made Up"),
        "latin1",
      );
    });
    const two = client();
    const answer = await two.ask({
      method: "PUT",
      path: "/v2/a%20b?c=d&e",
      fields: { "x-custom": "yes", "content-length": "4" },
      body: "body",
    });
    expect(answer).toMatchObject({ status: 201, body: "ok" });
    expect(answer.rawHeaders.slice(0, 12)).toEqual([
      "content-length",
      "2",
      "set-cookie",
      "a=1",
      "x-b",
      "\xe9",
      "set-cookie",
      "b=2",
      "content-type",
      "a",
      "content-type",
      "b",
    ]);
    for (const gone of ["connection", "keep-alive", "x-gone", "transfer-encoding"]) {
      expect(valuesOf(answer.rawHeaders, gone)).toEqual([]);
    }
    const sent = upstream.bytes();
    expect(sent).toMatch(/^PUT \/v2\/a%20b\?c=d&e HTTP\/1\.1\r\nhost: localhost:\d+\r\n/i);
    expect(sent).toContain("x-custom: yes\r\n");
    expect(sent).toContain("X-Forwarded-Proto: https\r\n");
    expect(sent).toContain("content-length: 4\r\n");
    expect(sent.endsWith("\r\n\r\nbody")).toBe(true);
  });

  test.each([
    ["HEAD", 200, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"],
    ["GET", 204, "HTTP/1.1 204 No Content\r\n\r\n"],
    ["GET", 304, 'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\nContent-Length: 9\r\n\r\n'],
    ["GET", 205, "HTTP/1.1 205 Reset Content\r\nContent-Length: 2\r\n\r\nhi"],
  ])("%s answered with %d has no body, and the next one is served", async (method, status, bytes) => {
    const { client } = await startRaw((socket) => void socket.write(bytes));
    const two = client();
    for (let i = 0; i < 2; i += 1) {
      const answer = await two.ask({ method });
      expect(answer).toMatchObject({ status, body: "" });
      expectContractFields(answer, { limit: 100, remaining: 99 - i }, lowerCase);
    }
  });

  test("megabytes pass both ways, with the windows of flow control", async () => {
    const { client } = await start({}, (_req, res, body) => void res.end(body));
    // In every run more than the windows of a stream and of its connection.
    const body = "0123456789abcdef".repeat(scaled(512 * 1024, 4));
    const answer = await answerOf(client().open({ method: "POST", body }), 15_000);
    expect(answer.status).toBe(200);
    expect(answer.body === body).toBe(true);
  });

  test("a stream is over with its answer, however large that is", async () => {
    const body = "x".repeat(70_000);
    const { client, gateway } = await startRaw((socket) => void socket.write(response(body)));
    const two = client();
    const whole = (): number => gateway.logLines.filter(({ complete }) => complete).length;
    for (let i = 1; i <= 3; i += 1) {
      expect((await two.ask()).body).toBe(body);
      await eventually("it is told of as whole", () => whole() === i);
    }
  });

  test("a request with a body is over with its answer, however many follow on the connection", async () => {
    const { client, gateway } = await start({ policies: [slidingPolicy({ limit: 1_000, windowMs: 60_000 })] });
    const two = client();
    for (let i = 0; i < 250; i += 1)
      expect(await two.ask({ method: "POST", body: "hello" })).toMatchObject({ status: 200 });
    await eventually("all are told of", () => gateway.logLines.filter(({ msg }) => msg === "request").length === 250);
    expect(gateway.logLines.filter(({ complete }) => complete === false)).toEqual([]);
  });

  test("a request with a body that its client resets without an error is not over with its answer", async () => {
    const { client, gateway } = await startRaw((socket) => {
      socket.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart");
    });
    const stream = client().open({ method: "POST", body: "hello" });
    await once(stream, "data");
    stream.close(constants.NGHTTP2_NO_ERROR);
    await eventually("it is told of", () => gateway.logLines.some(({ msg }) => msg === "request"));
    expect(gateway.logLines.find(({ msg }) => msg === "request")).toMatchObject({ status: 200, complete: false });
  });

  test("a 103 comes before its answer, and what waits for 100 gets it only after the decision", async () => {
    const { client } = await startRaw((socket, data) => {
      if (data.includes("/v2/hints")) socket.write("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\n");
      if (!data.includes("/v2/waits")) socket.write(response("ok"));
    });
    const two = client();
    expect(await two.ask({ path: "/v2/hints" })).toMatchObject({ status: 200, interim: [103] });
    const refused = two.open({
      method: "POST",
      path: "/v2/x",
      fields: { expect: "100-continue", authorization: "" },
      body: "b",
    });
    expect(await answerOf(refused)).toMatchObject({ status: 401, interim: [] });
    const waiting = two.session.request({
      ":method": "POST",
      ":path": "/v2/x",
      authorization: "Bearer t",
      expect: "100-continue",
    });
    const answer = answerOf(waiting);
    await within("100", once(waiting, "continue"));
    waiting.end("body");
    expect(await answer).toMatchObject({ status: 200 });
  });

  test("trailers of either side are dropped, with the field that names them", async () => {
    const { client, upstream } = await startRaw((socket) => {
      socket.write(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n",
      );
    });
    const stream = client().session.request(
      { ":method": "POST", ":path": "/v2/x", authorization: "Bearer t", trailer: "x-mine" },
      { waitForTrailers: true },
    );
    stream.on("wantTrailers", () => stream.sendTrailers({ "x-mine": "1" }));
    let trailers = 0;
    stream.on("trailers", () => {
      trailers += 1;
    });
    const answer = answerOf(stream);
    stream.end("body");
    const { rawHeaders, body } = await answer;
    expect({ body, trailers, named: valuesOf(rawHeaders, "trailer") }).toEqual({ body: "ok", trailers: 0, named: [] });
    expect(upstream.bytes()).not.toMatch(/x-mine/i);
  });

  test("an upgrade cannot be asked for, and a 101 from the upstream is 502", async () => {
    const { client } = await startRaw((socket) => {
      socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    });
    expect((await client().ask()).status).toBe(502);
  });
});

describe("what ends early", () => {
  test("a body over the bound is 413, the stream is let go, and the connection goes on", async () => {
    const { client } = await start({ maxBodyBytes: 10, timeouts: { lingerMs: 500 } });
    const two = client();
    const announced = await two.ask({ method: "POST", fields: { "content-length": "11" }, body: "hello world" });
    expectContractFields(announced, { limit: 100, remaining: 99 }, lowerCase);
    const counted = await two.ask({ method: "POST", body: "hello world" });
    expect([announced.status, counted.status]).toEqual([413, 413]);
    const endless = two.session.request({ ":method": "POST", ":path": "/v2/x", authorization: "Bearer t" });
    endless.write("x".repeat(1000));
    endless.on("error", () => {});
    expect((await answerOf(endless)).status).toBe(413);
    expect((await two.ask()).status).toBe(200);
  });

  test("an answer that comes before the body is whole is passed on whole", async () => {
    const { client } = await startRaw((socket) => void socket.write(response("early")), {
      timeouts: { lingerMs: 500 },
    });
    const stream = client().session.request({ ":method": "POST", ":path": "/v2/x", authorization: "Bearer t" });
    stream.write("the beginning");
    expect(await answerOf(stream)).toMatchObject({ status: 200, body: "early" });
  });

  test("a client that leaves takes its requests back from the upstream", async () => {
    const { client, gateway, upstream } = await startRaw(() => {});
    const two = client();
    for (let i = 0; i < 10; i += 1) two.open();
    await eventually("all are there", async () => (await upstreamConnections(gateway)).active === 10);
    two.session.destroy();
    await eventually("all are given back", async () => (await upstreamConnections(gateway)).active === 0);
    await eventually("and closed", () => upstream.sockets.size === 0);
    await eventually(
      "all are told of",
      () => gateway.logLines.filter(({ complete }) => complete === false).length === 10,
    );
  });

  test("a client that does not read is waited for, then reset, while other streams go on; memory stays bounded", async () => {
    let written = 0;
    const chunk = Buffer.alloc(64 * 1024, "x");
    const { client, gateway } = await startRaw(
      (socket, data) => {
        if (!data.includes("/v2/large")) return void socket.write(response("ok"));
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n");
        const pump = (): void => {
          while (written < 104_857_600) {
            written += chunk.length;
            if (!socket.write(chunk)) return void socket.once("drain", pump);
          }
        };
        pump();
      },
      { timeouts: { bodyMs: 1_000 } },
    );
    const two = client();
    const slow = two.open({ path: "/v2/large" });
    slow.pause();
    await within("its head", once(slow, "response"));
    expect((await two.ask()).status).toBe(200);
    await eventually("it is reset", () => slow.destroyed || slow.closed || slow.rstCode !== 0, 8_000);
    expect(written).toBeLessThan(32 * 1024 * 1024);
    expect((await two.ask()).status).toBe(200);
    await eventually("it is given back", async () => (await upstreamConnections(gateway)).active === 0);
  });
});

test("a body kept in DATA frames of one byte is reset with ENHANCE_YOUR_CALM, and the other streams go on", async () => {
  const { client, frames, gateway } = await startRaw((socket, data) => {
    if (!data.includes("POST ")) socket.write(response("ok"));
  });
  const one = frames();
  one.headers(1, post(), endHeaders);
  for (let i = 0; i < 2_000; i += 1) one.send(frameTypes.data, 0, 1, "x");
  await eventually("it is reset", () => one.of(frameTypes.rstStream, 1).length === 1);
  const codes = one.of(frameTypes.rstStream).map(({ payload }) => payload.readUInt32BE(0));
  expect(codes).toEqual([constants.NGHTTP2_ENHANCE_YOUR_CALM]);
  one.headers(3, get());
  expect(await one.ended(3)).toBe("whole");
  expect(await metric(gateway, 'headgate_refusals_total{reason="small_pieces"}')).toBe(1);
  expect((await client().ask()).status).toBe(200);
});

describe("time, and the end", () => {
  /** Its connections are looked at by `look` alone, after so much more time. */
  async function stageHeld(overrides: Overrides, answer: string) {
    holdIntervals(cleanup);
    const clock = new FakeClock();
    const staged = await startRaw((socket) => void socket.write(answer), overrides, clock);
    const look = (passedMs: number): void => {
      clock.advance(passedMs);
      vi.advanceTimersByTime(1_000);
    };
    return { ...staged, look };
  }
  const isConnected = (one: FrameClient) => eventually("it is connected", () => one.of(frameTypes.settings).length > 1);

  test("a connection without a request is closed after the head's time, with a GOAWAY; a proxy's is kept", async () => {
    const clientAddress = { trustedProxies: ["127.0.0.1/32"] };
    const { frames, gateway, look } = await stageHeld({ timeouts: { headMs: 5_000 }, clientAddress }, response("ok"));
    const proxy = frames();
    const one = frames({ localAddress: "127.0.0.2" });
    await isConnected(proxy);
    await isConnected(one);
    look(4_999);
    proxy.headers(1, get());
    expect(await proxy.ended(1)).toBe("whole");
    expect(one.goaways).toEqual([]);
    look(1);
    await eventually("it is closed", () => one.isClosed);
    expect(one.goaways).toEqual([constants.NGHTTP2_NO_ERROR, constants.NGHTTP2_NO_ERROR]);
    await eventually("it is gone", async () => (await connections(gateway)) === 1);
    proxy.headers(3, get());
    expect(await proxy.ended(3)).toBe("whole");
    expect(proxy.goaways).toEqual([]);
  });

  test("a connection that is idle after a request is closed after the keep-alive time, even if it stays half-open", async () => {
    const { frames, gateway, look } = await stageHeld({ timeouts: { keepAliveMs: 5_000 } }, response("ok"));
    const one = frames();
    one.socket.allowHalfOpen = true;
    one.headers(1, get());
    expect(await one.ended(1)).toBe("whole");
    look(4_999);
    one.headers(3, get());
    expect(await one.ended(3)).toBe("whole");
    expect(one.goaways).toEqual([]);
    look(5_000);
    await eventually("it is told", () => one.goaways.length === 2);
    expect(one.goaways).toEqual([constants.NGHTTP2_NO_ERROR, constants.NGHTTP2_NO_ERROR]);
    await eventually("it is gone", async () => (await connections(gateway)) === 0);
  });

  test("a head that is not complete after the head's time ends the connection, even while another request waits", async () => {
    const { frames, gateway, look } = await stageHeld({ timeouts: { headMs: 1_000 } }, "");
    const one = frames();
    await isConnected(one);
    one.headers(1, get());
    one.send(frameTypes.headers, 1, 3, literals(get()).subarray(0, 20));
    let passedMs = 0;
    await eventually("it is closed", () => {
      look(500);
      passedMs += 500;
      return one.isClosed;
    });
    expect(passedMs).toBeGreaterThan(1_000);
    expect(one.goaways).toEqual([constants.NGHTTP2_ENHANCE_YOUR_CALM]);
    await eventually("it is gone", async () => (await connections(gateway)) === 0);
  });

  test("after as many requests as one connection may have it is told to go, and the answers still come", async () => {
    const { client, gateway } = await start({ listen: { maxRequestsPerConnection: 3 } });
    const two = client();
    const goaway = once(two.session, "goaway");
    for (let i = 0; i < 3; i += 1) expect((await two.ask()).status).toBe(200);
    await within("a GOAWAY", goaway);
    await eventually("it ends", async () => (await connections(gateway)) === 0);
  });

  test("the drain says GOAWAY, finishes what is under way, leaves what crosses it alone, and ends the connection", async () => {
    const release: (() => void)[] = [];
    const { frames, gateway, upstream } = await startRaw(
      (socket) => release.push(() => void socket.write(response("late"))),
      { drain: { timeoutMs: 60_000 } },
    );
    const [busy, idle] = [frames(), frames()];
    busy.headers(1, get("/v2/a"));
    await eventually("it is at the upstream", () => release.length === 1);
    await eventually("the other is connected", () => idle.of(frameTypes.settings).length > 1);
    const drained = gateway.drain();
    await eventually("the idle one ends", () => idle.isClosed);
    expect(idle.goaways).toEqual([constants.NGHTTP2_NO_ERROR, constants.NGHTTP2_NO_ERROR]);
    await eventually("the other is told", () => busy.goaways.length === 2);
    expect(busy.of(frameTypes.goaway).map(({ payload }) => payload.readUInt32BE(0))).toEqual([2 ** 31 - 1, 1]);
    busy.headers(3, get("/v2/crossing"));
    release[0]?.();
    expect(await busy.ended(1)).toBe("whole");
    await eventually("it ends", () => busy.isClosed);
    expect(busy.endOf(3)).not.toBe("whole");
    expect(upstream.bytes()).not.toContain("crossing");
    // Long before its time is over.
    await within("the drain ends", drained);
  });

  test("the end of the drain's time breaks off what is left", async () => {
    const { client, gateway, upstream } = await startRaw(() => {}, { drain: { timeoutMs: 300 } });
    const stream = client().open();
    await eventually("it is at the upstream", () => upstream.bytes() !== "");
    const closed = once(stream, "close");
    await within("the drain ends", gateway.drain());
    await within("the stream is closed", closed);
    expect(gateway.logLines.find(({ msg }) => /broken off/.test(String(msg)))).toMatchObject({ requests: 1 });
  });
});
