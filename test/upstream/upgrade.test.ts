// The Upgrade itself, byte for byte: who gets a 101 and when, what every other answer looks like, and that no byte is
// ever read as something it was not sent as.
import type { Socket } from "node:net";
import { expect, test, vi } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { expectContractFields, expectOwnAnswer } from "../support/contract-fields.ts";
import { eventually, inFewTurns, within } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request, response, stageHttp, stageRaw } from "../support/stage.ts";
import { holdTimers } from "../support/timers.ts";
import { deadUrl } from "../support/unavailable.ts";
import { tunnels } from "../support/web-sockets.ts";

const cleanup = useCleanup();
const offer = (protocol = "websocket", fields = ""): string =>
  request("/v2/x", { fields: `Connection: keep-alive, Upgrade\r\nUpgrade: ${protocol}\r\n${fields}` });
const switched = (protocol = "websocket", fields = ""): string =>
  `HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: ${protocol}\r\n${fields}\r\n`;
const isOffer = (data: Buffer): boolean => /\r\nupgrade: /i.test(data.toString("latin1"));

/** Agrees, and then sends every byte back. */
function echo(socket: Socket, data: Buffer): void {
  socket.write(isOffer(data) ? switched() : data);
}

test("the 101 carries the fields once each, the upstream's own, and nothing of the upstream's connection", async () => {
  const spoofed =
    "RateLimit-Limit: 7\r\ndate: x\r\nKeep-Alive: timeout=1\r\nSec-WebSocket-Accept: abc=\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n";
  const { connect, upstream } = await stageRaw(cleanup, (socket) => void socket.write(switched("WebSocket", spoofed)));
  const client = connect().write(offer("WebSocket", "Sec-WebSocket-Key: k\r\n"));
  const { status, rawHeaders } = await client.readHead();
  expect(status).toBe(101);
  expectContractFields({ rawHeaders }, { limit: 100, remaining: 99 });
  expect(valuesOf(rawHeaders, "Upgrade")).toEqual(["WebSocket"]);
  expect(valuesOf(rawHeaders, "Connection")).toEqual(["Upgrade"]);
  expect(valuesOf(rawHeaders, "Sec-WebSocket-Accept")).toEqual(["abc="]);
  expect(valuesOf(rawHeaders, "Set-Cookie")).toEqual(["a", "b"]);
  expect(valuesOf(rawHeaders, "Keep-Alive")).toEqual([]);
  expect(upstream.bytes()).toMatch(/\r\nupgrade: WebSocket\r\n/i);
  expect(upstream.bytes()).toMatch(/\r\nSec-WebSocket-Key: k\r\n/);
  expect(upstream.bytes().match(/\r\nconnection: /gi)).toHaveLength(1);
});

test("bytes that come early on either side arrive, in order and not before the upstream's 101", async () => {
  let agree = (): void => {};
  const { connect, upstream } = await stageRaw(cleanup, (socket, data) => {
    if (isOffer(data)) agree = () => void socket.write(`${switched()}early from the upstream`);
    else socket.write(data);
  });
  const client = connect().write(`${offer()}one `);
  await eventually("the offer is at the upstream", () => upstream.bytes().endsWith("\r\n\r\n"));
  client.write("two ");
  // Another connection's whole exchange: what was written before it has arrived.
  expect((await connect().ask(request("/elsewhere"))).status).toBe(404);
  expect(upstream.bytes().endsWith("\r\n\r\n")).toBe(true);
  expect(client.receivedBytes).toBe(0);
  agree();
  expect((await client.readHead()).status).toBe(101);
  client.write("three");
  await eventually("all is back", () => client.rest === "early from the upstreamone two three");
});

test.each([
  ["200 OK", "Content-Length: 2\r\n", "ok"],
  ["403 Forbidden", "Content-Length: 2\r\n", "no"],
  ["426 Upgrade Required", "Content-Length: 0\r\n", ""],
])(
  "an upstream that answers %s is heard, and what was pipelined behind the offer is no request",
  async (line, fields, body) => {
    const { connect, upstream, gateway } = await stageRaw(
      cleanup,
      (socket) => void socket.write(`HTTP/1.1 ${line}\r\n${fields}\r\n${body}`),
    );
    const client = connect();
    const answer = await client.ask(offer() + request("/v2/smuggled"));
    expect({ status: answer.status, body: answer.body }).toEqual({ status: Number(line.slice(0, 3)), body });
    expectContractFields(answer, { limit: 100, remaining: 99 });
    expect(valuesOf(answer.rawHeaders, "Connection")).toEqual(["close"]);
    expect(await within("the connection ends", client.closed)).toBe("end");
    expect(client.rest).toBe("");
    expect(upstream.bytes()).not.toContain("smuggled");
    await eventually("nothing is left", async () => (await tunnels(gateway)).opening === 0);
    await eventually("the upstream's connection is closed", () => upstream.sockets.size === 0);
  },
);

test("a large answer in place of a 101 is streamed to its end", async () => {
  const body = "x".repeat(8_000_000);
  const { connect } = await stageRaw(cleanup, (socket) => void socket.write(response(body)));
  expect((await connect().ask(offer())).body.length).toBe(body.length);
});

const refusedOffers = [
  [401, offer().replace(/Authorization.*\r\n/, ""), "Unauthorized", "Access token does not exist.", 99],
  [404, offer().replace("/v2/x", "/x"), "Not Found", "There is nothing at this path.", 100],
  [400, offer().replace("/v2/x", "/v1/..%2fv2/x"), "Bad Request", "The path can be read in more than one way.", 99],
  [400, offer("websocket", "Host: b\r\n"), "Bad Request", "Exactly one valid Host header is required.", 99],
] as const;

test.each(refusedOffers)("a refusal is readable and whole: %i", async (status, bytes, message, errMsg, remaining) => {
  const { connect, upstream } = await stageRaw(cleanup, echo);
  const client = connect();
  const answer = await client.ask(`${bytes}early bytes${request("/v2/smuggled")}`);
  expect(answer.status).toBe(status);
  expectContractFields(answer, { limit: 100, remaining });
  expectOwnAnswer(answer, message, errMsg);
  expect(await within("the connection ends", client.closed)).toBe("end");
  expect(client.rest).toBe("");
  expect(upstream.bytes()).toBe("");
});

test("an offer over the limit is 429 and never reaches the upstream", async () => {
  const policies = [slidingPolicy({ limit: 1, windowMs: 60_000 })];
  const { connect, upstream } = await stageRaw(cleanup, echo, { policies: [...policies] });
  const first = connect().write(offer());
  expect((await first.readHead()).status).toBe(101);
  const seen = upstream.bytes();
  const answer = await connect().ask(offer());
  expect(answer.status).toBe(429);
  expectContractFields(answer, { limit: 1, remaining: 0 });
  expectOwnAnswer(answer, "Too Many Requests", "Too many requests, please try again later.");
  expect(upstream.bytes()).toBe(seen);
});

test.each([
  ["to a protocol that was not offered", switched("irc")],
  ["to one more than was offered", switched("websocket, h2c")],
  ["to no protocol", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\r\n"],
  ["without saying so in Connection", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"],
])("a 101 %s is 502", async (_, bytes) => {
  const { connect, upstream, gateway } = await stageRaw(cleanup, (socket) => void socket.write(bytes));
  const answer = await connect().ask(offer());
  expect(answer.status).toBe(502);
  expectContractFields(answer, { limit: 100, remaining: 99 });
  await eventually("the upstream's connection is closed", () => upstream.sockets.size === 0);
  expect(await tunnels(gateway)).toEqual({ opening: 0, open: 0 });
});

test.each([
  [502, "closes", (socket: Socket) => void socket.end()],
  [502, "resets", (socket: Socket) => void socket.resetAndDestroy()],
  [504, "hangs", () => {}],
])("%i when the upstream %s", async (status, _, onData) => {
  const { connect, gateway } = await stageRaw(cleanup, onData, { upstream: { responseTimeoutMs: 300 } });
  const client = connect();
  const answer = await client.ask(offer());
  expect(answer.status).toBe(status);
  expectContractFields(answer, { limit: 100, remaining: 99 });
  expect(await within("the connection ends", client.closed)).toBe("end");
  expect(await tunnels(gateway)).toEqual({ opening: 0, open: 0 });
});

test("502 when nothing listens there", async () => {
  const gateway = cleanup(await startTestGateway({ upstreamUrl: deadUrl }));
  expect((await cleanup(new RawConnection(gateway.traffic.port)).ask(offer())).status).toBe(502);
});

test.each([
  ["h2c", offer("h2c", "HTTP2-Settings: AAMAAABkAAQAAP__\r\n")],
  ["TLS/1.0", offer("TLS/1.0")],
  ["websocket, h2c", offer("websocket, h2c")],
  ["websocket and, on another line, h2c", offer("websocket", "Upgrade: h2c\r\n")],
  ["websocket with a length of 00", offer("websocket", "Content-Length: 00\r\n")],
  ["websocket on HTTP/1.0", offer().replace("HTTP/1.1", "HTTP/1.0")],
  ["websocket with POST", offer("websocket", "Content-Length: 0\r\n").replace("GET", "POST")],
])("an offer of %s is served as ordinary HTTP", async (_, bytes) => {
  const { connect, upstream } = await stageRaw(cleanup, (socket) => void socket.write(response("ok")));
  expect(await connect().ask(bytes)).toMatchObject({ status: 200, body: "ok" });
  expect(upstream.bytes()).not.toMatch(/upgrade/i);
});

test("an offer with a length of 0 is tunnelled; what follows its head is the tunnel's", async () => {
  const { connect } = await stageRaw(cleanup, echo);
  const client = connect().write(`${offer("websocket", "Content-Length: 0\r\n")}${request("/v2/inner")}`);
  expect((await client.readHead()).status).toBe(101);
  await eventually("it comes back as bytes", () => client.rest === request("/v2/inner"));
});

test.each(["Content-Length: %\r\n", "Transfer-Encoding: chunked\r\n"])(
  "the body of an offer with %j is a body, never bytes of a tunnel",
  async (framing) => {
    const { connect, upstream } = await stageHttp(cleanup);
    const client = connect();
    const inner = request("/v2/smuggled");
    const body = framing.includes("%") ? inner : `${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`;
    expect((await client.ask(offer("websocket", framing.replace("%", `${inner.length}`)) + body)).status).toBe(200);
    expect(upstream.received).toMatchObject([{ target: "/v2/x", body: Buffer.from(inner) }]);
    expect(upstream.received[0]?.rawHeaders.join()).not.toMatch(/upgrade/i);
  },
);

test("an offer pipelined behind a request has its turn after it", async () => {
  const { connect, upstream } = await stageRaw(cleanup, (socket) => void socket.write(response("ok")));
  const client = connect();
  expect(await client.ask(request("/v2/first") + offer())).toMatchObject({ status: 200, body: "ok" });
  expect(await client.read()).toMatchObject({ status: 200, body: "ok" });
  expect(upstream.bytes()).toMatch(/first[\s\S]*Upgrade: websocket/);
});

test("an offer on a connection that has carried requests is tunnelled; another protocol too, if it is allowed", async () => {
  const onData = (socket: Socket, data: Buffer): void => {
    if (isOffer(data)) socket.write(switched("irc"));
    else socket.write(data.includes("HTTP/1.1") ? response("ok") : data);
  };
  const upgrade = { protocols: ["irc", "websocket"] };
  const { connect } = await stageRaw(cleanup, onData, { upgrade });
  const client = connect();
  expect((await client.ask(request("/v2/first"))).status).toBe(200);
  client.write(offer("IRC, websocket"));
  expect((await client.readHead()).status).toBe(101);
  client.write("PING");
  await eventually("it comes back", () => client.rest === "PING");
});

test("an end in one direction is passed on, and the other goes on", async () => {
  const { connect, gateway } = await stageRaw(cleanup, (socket, data) => {
    if (!isOffer(data)) return;
    socket.allowHalfOpen = true;
    socket.write(switched());
    socket.on("end", () => void socket.end("said after the end"));
  });
  const client = connect({ allowHalfOpen: true }).write(offer());
  expect((await client.readHead()).status).toBe(101);
  client.socket.end("last words");
  expect(await within("the connection ends", client.closed)).toBe("end");
  expect(client.rest).toBe("said after the end");
  await eventually("nothing is left", async () => (await tunnels(gateway)).open === 0);
});

test("an upstream's end is passed on, and the client may still speak", async () => {
  let heard = "";
  const { connect } = await stageRaw(cleanup, (socket, data) => {
    if (!isOffer(data)) heard += data.toString();
    else {
      socket.allowHalfOpen = true;
      socket.end(`${switched()}bye`);
    }
  });
  const client = connect({ allowHalfOpen: true }).write(offer());
  await eventually("the upstream's end is here", () => client.ending === "end");
  client.socket.end("bye yourself");
  await eventually("it is heard", () => heard === "bye yourself");
});

test("beyond maxTunnels it is 503, until one is free; a tunnel without a byte for too long is closed", async () => {
  holdTimers(cleanup);
  const upgrade = { maxTunnels: 1, idleTimeoutMs: 60_000 };
  const { connect, gateway } = await stageRaw(cleanup, echo, { upgrade });
  const first = connect().write(offer());
  expect((await first.readHead()).status).toBe(101);
  const answer = await connect({ localAddress: "127.0.0.2" }).ask(offer());
  expect(answer.status).toBe(503);
  expectOwnAnswer(answer, "Service Unavailable", "The service is overloaded, please try again later.");
  expect((await connect().ask(request("/elsewhere"))).status).toBe(404);
  vi.advanceTimersByTime(upgrade.idleTimeoutMs);
  await within("the idle tunnel is closed", first.closed);
  await eventually("nothing is left", async () => (await tunnels(gateway)).open === 0);
  const third = connect().write(offer());
  expect((await third.readHead()).status).toBe(101);
});

test("a client that leaves before the upstream has answered takes the upstream's connection with it", async () => {
  const { connect, upstream, gateway } = await stageRaw(cleanup, () => {});
  for (const leave of ["end", "destroy"] as const) {
    const client = connect().write(offer());
    await eventually("the offer is at the upstream", () => upstream.sockets.size === 1);
    await eventually("it waits", async () => (await tunnels(gateway)).opening === 1);
    client.socket[leave]();
    await inFewTurns("the upstream's connection is closed", () => upstream.sockets.size === 0);
    expect(await tunnels(gateway)).toEqual({ opening: 0, open: 0 });
  }
});

test.each(["client", "upstream"] as const)(
  "a reset by the %s ends the other side, which would have stayed",
  async (who) => {
    const { connect, upstream, gateway } = await stageRaw(cleanup, (socket, data) => {
      socket.allowHalfOpen = true;
      echo(socket, data);
    });
    const client = connect({ allowHalfOpen: true }).write(offer());
    expect((await client.readHead()).status).toBe(101);
    const [served] = upstream.sockets;
    if (who === "client") client.socket.resetAndDestroy();
    else served?.resetAndDestroy();
    await eventually("nothing is left", async () => (await tunnels(gateway)).open === 0);
  },
);
