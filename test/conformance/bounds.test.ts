// The bounds of a head over every carrier: what passes up to each of them, which refusal names which one, and what its key
// moves. A bound that honest clients meet has a key, and none is reported as another fault.
import { describe, expect, test } from "vitest";
import { stageTokens, type TokenAsk } from "../auth/carriers.ts";
import { digestOf } from "../auth/digest.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { Http2Client } from "../support/http2-client.ts";
import { endHeaders, endStream, FrameClient, frameTypes, get, literals } from "../support/http2-frames.ts";
import { valuesOf } from "../support/raw-client.ts";
import { request, stageHttp, stageRaw } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const tls = useTls();

/** As a PHP framework makes it. */
const withPipe = "12|abcDEF0123456789abcDEF0123456789abcDEF01";
/** Visible ASCII but the comma, the quotation mark, letters and digits. */
const others = "!#$%&'()*+-./:;<=>?@[\\]^_`{|}~";
const policies = "policies: [{ name: a, limit: 1000, window: 60s }]";
const long = (bytes: number): string => "a".repeat(bytes);

type Row = readonly [name: string, asked: Partial<TokenAsk>, status: number, authenticate?: string];

/** Asks over every carrier, each time as another client. */
async function expectOverAll(yaml: string, tokens: readonly string[], rows: readonly Row[]): Promise<void> {
  const listed = tokens.map((token) => `${digestOf(token)}  # t`);
  const { carriers } = await stageTokens(cleanup, { tls: tls(), yaml, tokens: listed, withPlugin: true });
  const seen: unknown[] = [];
  const expected: unknown[] = [];
  for (const { name: carrier, ask } of carriers) {
    for (const [i, [name, asked, status, authenticate]] of rows.entries()) {
      const answer = await ask({ client: `203.0.113.${i}`, token: "t", path: "/v2/me", ...asked });
      const header = answer.fields.get("www-authenticate") ?? "";
      seen.push([carrier, name, answer.status, header.includes("invalid_token") ? "invalid_token" : ""]);
      expected.push([carrier, name, status, authenticate ?? ""]);
    }
  }
  expect(seen).toEqual(expected);
}

const malformed: readonly Row[] = ["a,b", 'a"b', "a b"].map((token) => [token, { token }, 401, "invalid_token"]);

describe("a bearer token", () => {
  const passing: readonly Row[] = [withPipe, others, long(8_186), long(10_455), long(15_000)].map((token) => [
    `${token.slice(0, 30)} (${token.length})`,
    { token },
    200,
  ]);

  test("presence: visible ASCII, as long as the head may be", async () => {
    await expectOverAll(policies, [], [...passing, ...malformed]);
  });

  test("tokens: the same, if it is listed", async () => {
    const yaml = `${policies}\nauth: { mode: tokens, tokensFile: tokens.txt }`;
    const listed = passing.map(([, { token }]) => token as string);
    await expectOverAll(yaml, listed, [...passing, ...malformed, ["no", { token: long(8_185) }, 401, "invalid_token"]]);
  });

  test("one that makes the head too large is 431 with the bound's text, over HTTP/1.1 and HTTP/2, and never 401", async () => {
    const { overrides, ca } = tls();
    const { gateway, connect } = await stageHttp(cleanup, undefined, overrides);
    const answer = await connect({ tls: { ca } }).ask(request("/v2/me", { fields: `X: ${long(17_000)}\r\n` }));
    const other = await new Http2Client(gateway.traffic.port, ca, cleanup).ask({ fields: { x: long(17_000) } });
    for (const { status, rawHeaders, body } of [answer, other]) {
      expect([status, valuesOf(rawHeaders, "www-authenticate")]).toEqual([431, []]);
      expect(body).toContain("The request headers are larger than allowed.");
    }
    await eventually("both are logged", () => gateway.logLines.filter(({ msg }) => msg === "request").length === 2);
    for (const line of gateway.logLines.filter(({ msg }) => msg === "request")) {
      expect(line).toMatchObject({ problem: "head_too_large", detail: "maxHeaderBytes" });
    }
  });
});

describe("the keys, over every carrier", () => {
  const query = (bytes: number): string => `/v2/api/v1/query_range?query=${long(bytes - 29)}`;

  test("by default a target of 8 KiB passes, and a longer one is 414", async () => {
    await expectOverAll(
      policies,
      [],
      [
        ["8 KiB", { path: query(8_192) }, 200],
        ["one byte more", { path: query(8_193) }, 414],
        ["as a dashboard sends it", { path: query(10_900) }, 414],
      ],
    );
  });

  test("maxTargetBytes moves it up to the head's bound", async () => {
    await expectOverAll(
      `${policies}\nmaxTargetBytes: 12KiB`,
      [],
      [
        ["as a dashboard sends it", { path: query(10_900) }, 200],
        ["12 KiB", { path: query(12_288) }, 200],
        ["one byte more", { path: query(12_289) }, 414],
      ],
    );
  });

  test("maxTargetBytes moves it down, also for a head that is like the one before but for its target", async () => {
    const { connect } = await stageHttp(cleanup, undefined, { maxTargetBytes: 1_024 });
    const client = connect();
    for (const [bytes, status] of [
      [100, 200],
      [101, 200],
      [1_024, 200],
      [1_025, 414],
      [1_024, 200],
    ] as const) {
      expect([bytes, (await client.ask(request(query(bytes)))).status]).toEqual([bytes, status]);
    }
  });

  test("maxHeaderBytes moves the head's bound: a token of 60,000 bytes beside a target of 60,000", async () => {
    const yaml = `${policies}\nmaxHeaderBytes: 128KiB\nmaxTargetBytes: 64KiB`;
    await expectOverAll(
      yaml,
      [],
      [
        ["both", { path: query(60_000), token: long(60_000) }, 200],
        ["a longer target", { path: query(65_537) }, 414],
      ],
    );
  });
});

test("a check over HTTP may have a head of twice the bound, since the ingress adds the target again", async () => {
  const port = { host: "127.0.0.1", port: 0, maxConnections: 100 };
  const extAuth = { http: port, trustedCallers: ["127.0.0.1"] };
  const { gateway } = await stageHttp(cleanup, undefined, { extAuth, maxHeaderBytes: 20_480 });
  const named = { "x-original-method": "GET", "x-original-uri": "/v2/x", "x-forwarded-for": "203.0.113.1" };
  const statusOf = async (bytes: number): Promise<number> => {
    const headers = { ...named, authorization: "Bearer t", cookie: long(bytes) };
    const response = await fetch(`${gateway.extAuthUrl}/auth-request`, { headers });
    await response.arrayBuffer();
    return response.status;
  };
  expect([await statusOf(39_000), await statusOf(41_500)]).toEqual([200, 431]);
});

describe("a head of 256 KiB, which is more than what is read of pipelined requests", () => {
  const overrides = { maxHeaderBytes: 262_144, auth: { mode: "off" } } as const;
  const fields = (bytes: number): string => `X: ${long(bytes)}\r\n`;

  test.each([1, 1_000, 70_000])(
    "passes over HTTP/1.1 in pieces of %d and more bytes, and the next request too",
    async (pieceBytes) => {
      const { upstream, connect } = await stageHttp(cleanup, undefined, overrides);
      const client = connect();
      const text = request("/v2/x", { fields: fields(250_000) });
      // The first pieces are small: each is a read of its own.
      client.write(text.slice(0, pieceBytes));
      await eventually("the first piece has left", () => client.socket.writableLength === 0);
      expect((await client.ask(`${text.slice(pieceBytes)}${request("/v2/next")}`)).status).toBe(200);
      expect((await client.read()).status).toBe(200);
      expect(upstream.received.map(({ target }) => target)).toEqual(["/v2/x", "/v2/next"]);
      expect(valuesOf(upstream.received[0]?.rawHeaders ?? [], "X")[0]).toHaveLength(250_000);
    },
  );

  test("is refused beyond it, with 431", async () => {
    const { connect } = await stageHttp(cleanup, undefined, overrides);
    expect((await connect().ask(request("/v2/x", { fields: fields(262_144) }))).status).toBe(431);
  });

  test("passes over HTTP/2 in CONTINUATION frames; twice as much ends the connection by its bytes", async () => {
    const listener = tls({ ...overrides });
    const { gateway, upstream } = await stageHttp(cleanup, undefined, listener.overrides);
    const client = new FrameClient(gateway.traffic.port, { ca: listener.ca }, cleanup);
    const send = (stream: number, bytes: number): void => {
      const block = literals(get("/v2/x", ["x", long(bytes)]));
      client.send(frameTypes.headers, endStream, stream, block.subarray(0, 16_384));
      for (let at = 16_384; at < block.length; at += 16_384) {
        const isLast = at + 16_384 >= block.length;
        client.send(frameTypes.continuation, isLast ? endHeaders : 0, stream, block.subarray(at, at + 16_384));
      }
    };
    send(1, 250_000);
    expect(await client.ended(1)).toBe("whole");
    expect(client.headOf(1).slice(0, 2)).toEqual([":status", "200"]);
    expect(valuesOf(upstream.received[0]?.rawHeaders ?? [], "x")[0]).toHaveLength(250_000);
    send(3, 300_000);
    expect(await client.ended(3)).toBe("whole");
    expect(client.headOf(3).slice(0, 2)).toEqual([":status", "431"]);
    send(5, 600_000);
    await eventually("the connection ends", () => client.isClosed);
    // ENHANCE_YOUR_CALM.
    expect(client.goaways).toEqual([11]);
  });
});

describe("a reload", () => {
  test("moves the bounds of requests at once, also on an open connection of HTTP/1.1, and those of the upstream", async () => {
    const cookies = `Set-Cookie: ${long(3_000)}\r\n`.repeat(10);
    const answer = `HTTP/1.1 200 OK\r\n${cookies}Content-Length: 2\r\n\r\nok`;
    const { gateway, upstream, connect } = await stageRaw(cleanup, (socket) => void socket.write(answer));
    const client = connect();
    const ask = async (target: string): Promise<number> => {
      return (await client.ask(request(target))).status;
    };
    const target = `/v2/${long(10_000)}`;
    expect([await ask("/v2/x"), await ask(target)]).toEqual([502, 414]);
    const { testSettings } = await import("../support/gateway.ts");
    const wanted = { maxHeaderBytes: 32_768, maxTargetBytes: 16_384, upstream: { maxHeaderBytes: 65_536 } };
    const reloaded = await gateway.reload(testSettings(upstream.url, { drain: { timeoutMs: 0 }, ...wanted }));
    expect(reloaded).toMatchObject({
      changed: ["upstream.maxHeaderBytes", "maxHeaderBytes", "maxTargetBytes"],
      restart: [],
    });
    expect([await ask("/v2/x"), await ask(target)]).toEqual([200, 200]);
    expect((await client.ask(request("/v2/x", { fields: `X: ${long(30_000)}\r\n` }))).status).toBe(200);
  });
});

describe("the head of the upstream's response", () => {
  const cookies = (count: number): string => `Set-Cookie: s=${long(3_000)}\r\n`.repeat(count);
  const answering = (count: number) => (socket: { write(bytes: string): unknown }) =>
    void socket.write(`HTTP/1.1 200 OK\r\n${cookies(count)}Content-Length: 2\r\n\r\nok`);

  test("of ten cookies of 3 KB is 502 by default, and the log names the bound", async () => {
    const { gateway, connect } = await stageRaw(cleanup, answering(10));
    expect((await connect().ask(request("/v2/login"))).status).toBe(502);
    const line = gateway.logLines.find(({ msg }) => msg === "upstream failed");
    expect(line).toMatchObject({ reason: "head_too_large" });
  });

  test.each([
    [10, 65_536],
    [80, 262_144],
  ])(
    "of %d of them passes under upstream.maxHeaderBytes: %d, over HTTP/1.1 and HTTP/2",
    async (count, maxHeaderBytes) => {
      const { overrides, ca } = tls({ upstream: { maxHeaderBytes } });
      const { gateway, connect } = await stageRaw(cleanup, answering(count), overrides);
      const client = connect({ tls: { ca } });
      const { status, rawHeaders, body } = await client.ask(request("/v2/login"));
      expect([status, valuesOf(rawHeaders, "set-cookie").length, body]).toEqual([200, count, "ok"]);
      const http2 = new Http2Client(gateway.traffic.port, ca, cleanup);
      // Node's client takes no more by itself.
      if (count > 10) return;
      const other = await http2.ask();
      expect([other.status, valuesOf(other.rawHeaders, "set-cookie").length, other.body]).toEqual([200, count, "ok"]);
    },
  );

  test("is read in linear time in pieces, and refused one byte beyond the bound", async () => {
    const head = (bytes: number): string => {
      const start = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: ";
      return `${start}${long(bytes - start.length)}\r\n\r\nok`;
    };
    for (const [bytes, status] of [
      [131_072, 200],
      [131_073, 502],
    ] as const) {
      const text = head(bytes);
      const { connect } = await stageRaw(
        cleanup,
        (socket) => {
          for (let at = 0; at < text.length; at += 1_000) socket.write(text.slice(at, at + 1_000));
        },
        { upstream: { maxHeaderBytes: 131_072 } },
      );
      expect([bytes, (await connect().ask(request("/v2/x"))).status]).toEqual([bytes, status]);
    }
  });

  test("of a health check has the same bound", async () => {
    const healthCheck = { path: "/health", intervalMs: 50, timeoutMs: 2_000 };
    for (const [maxHeaderBytes, isHealthy] of [
      [16_384, false],
      [65_536, true],
    ] as const) {
      const { gateway, upstream } = await stageRaw(cleanup, answering(10), {
        upstream: { healthCheck, maxHeaderBytes },
      });
      await eventually("four checks are answered", () => upstream.bytes().split("/health").length > 4);
      const isUnhealthy = (): boolean => gateway.logLines.some(({ msg }) => msg === "upstream address unhealthy");
      if (isHealthy) expect(isUnhealthy()).toBe(false);
      else await eventually("the address is ejected", isUnhealthy);
    }
  });
});
