// Requests are read however the network cuts them, and however many come at once.
import { afterEach, describe, expect, test, vi } from "vitest";
import { headerValue } from "../../src/core/headers.ts";
import { maxUnreadBytes } from "../../src/core/http-bounds.ts";
import { Transports } from "../../src/transport/transports.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import { type Overrides, startTestGateway } from "../support/gateway.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { inFullOr, scaled } from "../support/runs.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();
const lines = "Host: a\r\nAuthorization: Bearer t\r\n";
const get = (target: string): string => `GET ${target} HTTP/1.1\r\n${lines}\r\n`;
const post = (target: string, body: string): string =>
  `POST ${target} HTTP/1.1\r\n${lines}Content-Length: ${body.length}\r\n\r\n${body}`;
const inChunks = (target: string, chunks: string): string =>
  `POST ${target} HTTP/1.1\r\n${lines}Transfer-Encoding: chunked\r\n\r\n${chunks}`;
const throttling = { policies: [slidingPolicy({ limit: 0, windowMs: 60_000 })] };

afterEach(() => {
  vi.useRealTimers();
});

/** From now on no head is late, however long the machine takes for its next piece. */
function stopTime(): void {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
}

async function start(overrides: Overrides = {}, respond?: Parameters<typeof startUpstream>[0]) {
  const upstream = await startUpstream(respond ?? ((req, res, body) => void res.end(`${req.url} ${body.length}`)));
  cleanup(() => upstream.close());
  const gateway = cleanup(await startTestGateway({ upstreamUrl: upstream.url, overrides }));
  const connection = cleanup(new RawConnection(gateway.traffic.port));
  const { socket } = connection;
  /** Each piece is read by itself. */
  const writePieces = async (pieces: readonly string[]): Promise<void> => {
    for (const piece of pieces) {
      await new Promise<void>((resolve) => void socket.write(piece, "latin1", () => resolve()));
      await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    }
  };
  return { upstream, gateway, connection, writePieces };
}

describe("is read", () => {
  test("a head that is cut anywhere, on a new connection and on a used one", async () => {
    const { connection, writePieces } = await start();
    stopTime();
    const text = get("/v2/x?a=1");
    for (let at = 1; at < text.length; at += 3) {
      await writePieces([text.slice(0, at), text.slice(at)]);
      expect((await connection.read()).body).toBe("/v2/x?a=1 0");
    }
  });

  test("a header of UTF-8 or of Latin-1, and every character that a target may have: each byte arrives as it was", async () => {
    const { connection, writePieces, upstream } = await start();
    stopTime();
    const target = `/v2/x?${String.fromCharCode(...Array.from({ length: 0x7e - 0x20 }, (_, i) => 0x21 + i))}`;
    const values = [Buffer.from("Jürgen 漢").toString("latin1"), "\x80\xe4\xa0\xff"];
    const fields = values.map((value, i) => `X-${i}: ${value}\r\n`).join("");
    const text = get(target).replace("\r\n\r\n", `\r\n${fields}\r\n`);
    for (const pieces of [[text], [text.slice(0, -6), text.slice(-6)], [text]]) {
      await writePieces(pieces);
      expect((await connection.read()).body).toBe(`${target} 0`);
      const { rawHeaders, target: seen } = upstream.received.at(-1) ?? { rawHeaders: [], target: "" };
      expect([seen, ...["x-0", "x-1"].map((name) => headerValue(rawHeaders, name))]).toEqual([target, ...values]);
    }
  });

  test("a Connection with names, and empty lines before any request, however they are cut", async () => {
    const { connection, writePieces, upstream } = await start();
    stopTime();
    const named = get("/v2/named").replace("\r\n\r\n", "\r\nConnection: Keep-Alive, X-A\r\nX-A: 1\r\n\r\n");
    for (const pieces of [["\r\n", named], ["\r", `\n${named}`], [`\r\n\r\n${named}`], ["\r\n", "\r", `\n${named}`]]) {
      await writePieces(pieces);
      const { body, rawHeaders } = await connection.read();
      expect([body, valuesOf(rawHeaders, "connection")]).toEqual(["/v2/named 0", ["keep-alive"]]);
      expect(headerValue(upstream.received.at(-1)?.rawHeaders ?? [], "x-a")).toBeUndefined();
    }
  });

  test("the absolute form, whose host replaces that of the headers also if they come again, the asterisk, and rare methods", async () => {
    const { connection, writePieces, upstream } = await start();
    stopTime();
    for (const host of ["b", "a", "b", "c", "a", "a"]) {
      await writePieces([host === "a" ? get("/v2/x") : get(`http://${host}/v2/x`)]);
      expect((await connection.read()).body).toBe("/v2/x 0");
      const { rawHeaders } = upstream.received.at(-1) ?? { rawHeaders: [] };
      expect(["host", "x-forwarded-host"].map((name) => headerValue(rawHeaders, name))).toEqual([host, host]);
    }
    const rare = get("/v2/x").replace("GET", "PROPFIND");
    for (const [text, status] of [
      [get("*").replace("GET", "OPTIONS"), 204],
      [rare, 200],
      [get("http://b,c/v2/x"), 400],
    ] as const) {
      await writePieces([text.slice(0, 12), text.slice(12)]);
      expect([text, (await connection.read()).status]).toEqual([text, status]);
    }
  });

  test("a body behind its head, whole and in pieces", async () => {
    const { connection, writePieces, upstream } = await start();
    stopTime();
    const body = Array.from({ length: 3_000 }, (_, i) => `${i},`).join("");
    const text = post("/v2/x", body);
    const headBytes = text.length - body.length;
    for (const cuts of [
      [headBytes],
      [headBytes + 1],
      [headBytes + 9_000],
      [headBytes, headBytes + 10, headBytes + 5_000],
    ]) {
      await writePieces([0, ...cuts].map((at, i) => text.slice(at, cuts[i])));
      expect((await connection.read()).body).toBe(`/v2/x ${body.length}`);
      expect(upstream.received.at(-1)?.body.toString()).toBe(body);
    }
  });

  test("a body in chunks, wherever it is cut, and what follows it", async () => {
    const policies = [slidingPolicy({ limit: 1_000, windowMs: 60_000 })];
    const { connection, writePieces, upstream } = await start({ policies });
    stopTime();
    const text = `${inChunks("/v2/x", "3\r\nabc\r\n2;e=f\r\nde\r\n0\r\nX-T: v\r\n\r\n")}${get("/v2/after")}`;
    const headBytes = text.indexOf("3\r\nabc");
    for (let at = headBytes; at < text.length; at += 1) {
      await writePieces([text.slice(0, at), text.slice(at)]);
      expect((await connection.read()).body).toBe("/v2/x 5");
      expect((await connection.read()).body).toBe("/v2/after 0");
      const [first] = upstream.received.slice(-2);
      expect([first?.body.toString(), headerValue(first?.rawHeaders ?? [], "x-t")]).toEqual(["abcde", undefined]);
    }
  });

  test("a request that expects a 100, with a length and in chunks: the client gets one and then sends its body", async () => {
    const { connection } = await start();
    const lines = "Expect: 100-continue\r\n";
    const bodies = [
      [post("/v2/x", "hello"), "hello"],
      [inChunks("/v2/x", "5\r\nhello\r\n0\r\n\r\n"), "5\r\nhello\r\n0\r\n\r\n"],
    ] as const;
    for (const [text, body] of [...bodies, ...bodies]) {
      const head = text.slice(0, -body.length).replace("\r\n\r\n", `\r\n${lines}\r\n`);
      expect((await connection.ask(head)).status).toBe(100);
      expect((await connection.ask(body)).body).toBe("/v2/x 5");
      // Not waited for.
      expect((await connection.ask(head + body)).status).toBe(100);
      expect((await connection.read()).body).toBe("/v2/x 5");
    }
    const last = await connection.ask(get("/v2/x").replace("\r\n\r\n", `\r\n${lines}\r\n`));
    // Though there is no body to wait for.
    expect([last.body, valuesOf(last.rawHeaders, "connection")]).toEqual(["/v2/x 0", ["close"]]);
  });

  test("a body of megabytes in chunks of 8 KiB, and one of chunks of 24 bytes", async () => {
    const { connection, upstream } = await start();
    for (const [bytes, count] of [
      [8 * 1024, 500],
      [24, 50_000],
    ] as const) {
      const chunk = "0123456789abcdef".repeat(bytes / 8).slice(0, bytes);
      const body = `${bytes.toString(16)}\r\n${chunk}\r\n`.repeat(count);
      connection.write(inChunks("/v2/x", `${body}0\r\n\r\n`) + get("/v2/after"));
      expect((await connection.read()).body).toBe(`/v2/x ${bytes * count}`);
      expect((await connection.read()).body).toBe("/v2/after 0");
      expect(upstream.received.at(-2)?.body.toString() === chunk.repeat(count)).toBe(true);
    }
  });

  test("a body of megabytes, which waits for an upstream that reads it slowly", async () => {
    const { connection, upstream } = await start();
    const body = "0123456789".repeat(500_000);
    expect((await connection.ask(post("/v2/x", body) + get("/v2/after"))).body).toBe(`/v2/x ${body.length}`);
    expect((await connection.read()).body).toBe("/v2/after 0");
    expect(upstream.received[0]?.body.toString()).toBe(body);
  });

  test("requests behind each other, with and without bodies, answered in their order", async () => {
    const { connection } = await start();
    const targets = Array.from({ length: 60 }, (_, i) => `/v2/${i}`);
    const bodyOf = (i: number): string => "x".repeat(i % 3 === 0 ? i * 400 : 0);
    connection.write(targets.map((target, i) => (i % 3 === 0 ? post(target, bodyOf(i)) : get(target))).join(""));
    for (const [i, target] of targets.entries()) {
      expect((await connection.read()).body).toBe(`${target} ${bodyOf(i).length}`);
    }
  });

  test("thousands of them that are refused at once, and other clients are served meanwhile", async () => {
    const { connection, gateway } = await start({ ...throttling, listen: { maxRequestsPerConnection: 10_000 } });
    connection.write(get("/v2/x").repeat(5_000));
    expect((await cleanup(new RawConnection(gateway.traffic.port)).ask(get("/nowhere"))).status).toBe(404);
    for (let i = 0; i < 5_000; i += 1) expect((await connection.read()).status).toBe(429);
    expect(connection.rest).toBe("");
  });

  test("far more of them than are kept, of which only a part is read while each is answered", async () => {
    const opened = vi.spyOn(Transports.prototype, "openHttp1");
    cleanup(() => opened.mockRestore());
    const { connection } = await start();
    connection.write(get("/v2/x").repeat(60_000));
    for (let i = 0; i < 40; i += 1) expect((await connection.read()).body).toBe("/v2/x 0");
    expect(opened.mock.calls[0]?.[0].socket.bytesRead).toBeLessThan(4 * maxUnreadBytes);
  });

  test("a request whose end and whose successor come in one packet", async () => {
    const { connection, writePieces } = await start();
    stopTime();
    const both = post("/v2/1", "hello") + get("/v2/2");
    const at = both.indexOf("llo");
    await writePieces([both.slice(0, at), both.slice(at, at + 20), both.slice(at + 20)]);
    expect((await connection.read()).body).toBe("/v2/1 5");
    expect((await connection.read()).body).toBe("/v2/2 0");
  });
});

test("HTTP/1.0 keeps a connection that it asks to keep where the length is known; without a length the end is that of the connection", async () => {
  const { connection, writePieces } = await start({}, (req, res, body) => {
    if (req.url === "/v2/length") res.setHeader("Content-Length", 4);
    res.write("so");
    res.end(req.url === "/v2/length" ? "me" : `me ${body}`);
  });
  const version0 = (text: string): string =>
    text.replace("HTTP/1.1", "HTTP/1.0").replace("Host: a", "Connection: keep-alive");
  for (const cut of [20, 24, 40]) {
    const text = version0(get("/v2/length"));
    await writePieces([text.slice(0, cut), text.slice(cut)]);
    const { body, rawHeaders } = await connection.read();
    expect([body, valuesOf(rawHeaders, "connection")]).toEqual(["some", ["keep-alive"]]);
  }
  const { body, rawHeaders } = await connection.ask(version0(post("/v2/none", "hi")) + get("/v2/behind"));
  expect([body, valuesOf(rawHeaders, "connection")]).toEqual(["some hi", ["close"]]);
  expect(valuesOf(rawHeaders, "transfer-encoding")).toEqual([]);
  expect(await within("the connection ends", connection.closed)).toBe("end");
});

describe("a head that takes its time", () => {
  test("goes on later than its network would need", async () => {
    const { connection } = await start();
    connection.write(get("/v2/x").slice(0, 30));
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect((await connection.ask(get("/v2/x").slice(30))).body).toBe("/v2/x 0");
  });

  test("comes byte by byte, with what follows it in the last piece", async () => {
    const { connection, writePieces } = await start();
    const upgrade = get("/v2/x").replace("\r\n\r\n", "\r\nUpgrade: x\r\n\r\n");
    for (const text of [
      get("/v2/x"),
      `\r\n\n${upgrade}`,
      get("http://b:1/v2/x"),
      get("/v2/x").replace("GET", "M-SEARCH"),
    ]) {
      await writePieces([...text.slice(0, -1), text.slice(-1) + get("/v2/behind")]);
      expect((await connection.read()).body).toBe("/v2/x 0");
      expect((await connection.read()).body).toBe("/v2/behind 0");
    }
  });

  test.each([
    ["a method that nobody knows", "GE", "X ", 501],
    ["a byte that no target has", "GET /v2/x", "\x7f", 400],
    ["a blank before a colon", "GET /v2/x HTTP/1.1\r\nHost", " ", 400],
    ["a folded line", "GET /v2/x HTTP/1.1\r\nHost: a\r\n", " ", 400],
    ["a line feed alone", "GET /v2/x HTTP/1.1\r\nHost: a", "\n", 400],
    ["a target that goes on", `GET /${"x".repeat(16_000)}`, "x".repeat(400), 414],
    ["a value that goes on", `GET /v2/x HTTP/1.1\r\nX: ${"x".repeat(16_000)}`, "x".repeat(400), 431],
    ["one header too many", `GET /v2/x HTTP/1.1\r\n${"X: y\r\n".repeat(200)}`, "X", 431],
  ])("is refused at once for %s", async (_, begun, next, status) => {
    const { connection, writePieces } = await start();
    expect((await connection.ask(get("/v2/first"))).status).toBe(200);
    await writePieces([begun, next]);
    const answer = await connection.read();
    expect([answer.status, valuesOf(answer.rawHeaders, "connection")]).toEqual([status, ["close"]]);
    connection.write(get("/v2/behind"));
    expect(await within("the connection ends", connection.closed)).toBe("end");
    expect(connection.rest).toBe("");
  });

  test("is refused in time, on many connections at once, and during a drain", async () => {
    // All of them must begin within it.
    const headMs = inFullOr(3_000, 500);
    const { gateway } = await start({ timeouts: { headMs }, drain: { timeoutMs: 10_000 } });
    const clients: RawConnection[] = [];
    // Each is opened when it asks: one that says nothing for so long is closed.
    while (clients.length < scaled(150, 5)) {
      const client = new RawConnection(gateway.traffic.port);
      clients.push(client);
      expect((await client.ask(get("/none"))).status).toBe(404);
      client.write("GET /v2/x HTTP/1.1\r\n");
    }
    // When this is answered, what the others have begun has been read. A drain closes a connection on which nothing has begun.
    expect((await new RawConnection(gateway.traffic.port).ask(get("/none"))).status).toBe(404);
    const closed = gateway.close();
    for (const client of clients) {
      const { status, rawHeaders } = await client.read();
      expect([status, valuesOf(rawHeaders, "connection")]).toEqual([408, ["close"]]);
      client.destroy();
    }
    await closed;
  });
});

test("a TRACE, a request without fields, and one of a version that nobody knows are answered, the first two in their turn", async () => {
  const { connection, upstream } = await start();
  expect((await connection.ask(`${get("/v2/x").replace("GET", "TRACE")}GET /v2/x HTTP/1.1\r\n\r\n`)).status).toBe(501);
  const { status, rawHeaders } = await connection.read();
  expect([status, valuesOf(rawHeaders, "ratelimit-remaining")]).toEqual([400, ["98"]]);
  expect(await within("the connection ends", connection.closed)).toBe("end");
  expect(upstream.hits()).toBe(0);
});

test("of a request whose framing must not be believed, nothing behind the head is a request", async () => {
  const { connection, gateway, upstream } = await start();
  const of0 = `POST /v2/x HTTP/1.0\r\n${lines}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`;
  const gzip = inChunks("/v2/x", "0\r\n\r\n").replace("chunked", "gzip, chunked");
  for (const [text, status] of [
    [of0, 400],
    [gzip, 501],
  ] as const) {
    const client = text === of0 ? connection : new RawConnection(gateway.traffic.port);
    cleanup(() => client.destroy());
    const answer = await client.ask(text + get("/v2/behind"));
    expect([answer.status, valuesOf(answer.rawHeaders, "connection")]).toEqual([status, ["close"]]);
    expect(await within("the connection ends", client.closed)).toBe("end");
    expect(client.rest).toBe("");
  }
  expect(upstream.hits()).toBe(0);
});

test("a client that leaves within a body cancels the upstream's request", async () => {
  const { connection, upstream, gateway } = await start();
  connection.write(post("/v2/x", "x".repeat(100_000)).slice(0, 50_000));
  await eventually("its head is at the upstream", () => upstream.hits() === 1);
  connection.destroy();
  await eventually("nothing is left of it", async () => {
    const text = await (await fetch(`http://127.0.0.1:${gateway.admin.port}/metrics`)).text();
    return text.includes('headgate_upstream_connections{state="active"} 0');
  });
  expect(upstream.received).toEqual([]);
});

test("a body that is announced as too long is refused before it comes, however many digits its length has", async () => {
  const { connection, gateway } = await start();
  const clients = [connection, ...Array.from({ length: 4 }, () => new RawConnection(gateway.traffic.port))];
  for (const [i, length] of ["10485761", "9999999999", "10000000000", "999999999999999"].entries()) {
    const client = clients[i] ?? connection;
    cleanup(() => client.destroy());
    expect((await client.ask(post("/v2/x", "").replace("Length: 0", `Length: ${length}`))).status).toBe(413);
    expect(await within("the connection ends", client.closed)).toBe("end");
  }
});

test("a refusal comes before the body, and closes the connection; with the body it does not", async () => {
  const { connection, writePieces } = await start(throttling);
  connection.write(post("/v2/x", "hi"));
  expect(valuesOf((await connection.read()).rawHeaders, "connection")).toEqual(["keep-alive"]);
  await writePieces([post("/v2/x", "hi").slice(0, -2)]);
  expect(valuesOf((await connection.read()).rawHeaders, "connection")).toEqual(["close"]);
  expect(await within("the connection ends", connection.closed)).toBe("end");
});

test("after a refusal without a 100 nothing is a request: the client may have sent its body or not", async () => {
  const { connection, gateway, upstream } = await start(throttling);
  const [other, odd] = [new RawConnection(gateway.traffic.port), new RawConnection(gateway.traffic.port)];
  for (const [client, expectation] of [
    [connection, "100-continue"],
    [other, "100-Continue"],
    [odd, "tea"],
  ] as const) {
    cleanup(() => client.destroy());
    const text = post("/v2/x", "hi").replace("\r\n\r\n", `\r\nExpect: ${expectation}\r\n\r\n`);
    const answer = await client.ask(`${text}${get("/v2/behind")}`);
    expect([answer.status, valuesOf(answer.rawHeaders, "connection")]).toEqual([429, ["close"]]);
    expect(await within("the connection ends", client.closed)).toBe("end");
    expect(client.rest).toBe("");
  }
  expect(upstream.received).toEqual([]);
});

test("a body in chunks that turns out malformed is 400 and never whole at the upstream; nothing behind it is a request", async () => {
  const { connection, gateway, upstream, writePieces } = await start();
  const other = cleanup(new RawConnection(gateway.traffic.port));
  const behind = `zz\r\n0\r\n\r\n${get("/v2/behind")}`;
  other.write(inChunks("/v2/at-once", `2\r\nhi\r\n${behind}`));
  await writePieces([inChunks("/v2/later", "2\r\nhi\r\n")]);
  await eventually("the second one is at the upstream", () => upstream.hits() > 0);
  connection.write(behind);
  for (const client of [other, connection]) {
    const { status, rawHeaders } = await client.read();
    expect([status, valuesOf(rawHeaders, "connection")]).toEqual([400, ["close"]]);
    expect(await within("the connection ends", client.closed)).toBe("end");
    expect(client.rest).toBe("");
  }
  expect(upstream.received).toEqual([]);
});

test("a body in chunks over the limit is 413, also if it comes whole with its head", async () => {
  const { connection, gateway, upstream } = await start({ maxBodyBytes: 10 });
  const other = cleanup(new RawConnection(gateway.traffic.port));
  connection.write(inChunks("/v2/x", "b\r\nhello world\r\n0\r\n\r\n"));
  other.write(inChunks("/v2/x", "a\r\nhello worl\r\n1\r\n"));
  other.write("d\r\n0\r\n\r\n");
  expect((await connection.read()).status).toBe(413);
  expect((await other.read()).status).toBe(413);
  expect(upstream.received).toEqual([]);
});

test("a client that closes its side within a head, or with requests unanswered, counts as gone", async () => {
  const { gateway } = await start({ ...throttling, listen: { maxRequestsPerConnection: 10_000 } });
  for (const bytes of [get("/v2/x").slice(0, 30), get("/v2/x").repeat(5_000)]) {
    const client = cleanup(new RawConnection(gateway.traffic.port, { allowHalfOpen: true }));
    client.socket.end(bytes);
    await within("the connection ends", client.closed);
  }
  await eventually("only the first connection is left", async () => {
    const text = await (await fetch(`http://127.0.0.1:${gateway.admin.port}/metrics`)).text();
    return text.includes("headgate_client_connections 1\n");
  });
});
