// The three formats of an error: every reply of the gateway, in each format, on each carrier. Status, reason phrase and
// headers are the same in all of them; only the body and what describes it differ.
import { connect } from "node:http2";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { readPeer } from "../../src/core/client-address.ts";
import {
  badFieldName,
  type ErrorFormat,
  type LocalReply,
  localReplies,
  malformedBy,
} from "../../src/core/local-reply.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import { rejectOnSocket } from "../../src/transport/socket-transport.ts";
import { call } from "../ext-auth/grpc/client.ts";
import { shouldRateLimit } from "../ext-auth/grpc/protocol.ts";
import { rateLimitRequest } from "../ext-auth/grpc/requests.ts";
import { stageGrpc } from "../ext-auth/grpc/stage.ts";
import { stageDecision, token } from "../ext-auth/stage.ts";
import { startTestApp } from "../fastify/app.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { errorContent, expectContractFields, expectOwnAnswer, sixFields } from "../support/contract-fields.ts";
import { eventually } from "../support/eventually.ts";
import { testSettings } from "../support/gateway.ts";
import { answerOf, Http2Client } from "../support/http2-client.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { type FramedResponse, RawConnection } from "../support/raw-connection.ts";
import { request, stageRaw } from "../support/stage.ts";
import { useTls } from "../support/tls-listener.ts";
import { admitted, createTestTraffic, type TestTraffic } from "../support/traffic.ts";

const cleanup = useCleanup();
const tls = useTls();
const formats: readonly ErrorFormat[] = ["v2", "problem", "plain"];

/** Every reply that is an error, also those that are made for a request. */
const replies: readonly LocalReply[] = [
  ...Object.values(localReplies),
  badFieldName('x_forwarded"\\for', "X-Forwarded-For"),
  malformedBy({ rule: "a rule", line: 1, field: null }),
  { ...localReplies.slowRequest, detail: "timeouts.head" },
];

/** Asks for the reply with this number. */
type Ask = (at: number) => Promise<Pick<FramedResponse, "status" | "rawHeaders" | "body">>;

async function listen(onSocket: (socket: Socket) => void): Promise<number> {
  const server = createServer(onSocket);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanup(() => void server.close());
  return (server.address() as AddressInfo).port;
}

function open(port: number): RawConnection {
  return cleanup(new RawConnection(port));
}

async function overHttp1({ listener }: TestTraffic, method: string, version: string): Promise<Ask> {
  const { port } = await listener.listen({ host: "127.0.0.1", port: 0 });
  cleanup(() => listener.drain(0));
  let client = open(port);
  return async (at) => {
    const answer = await client.ask(`${method} /v2/${at} HTTP/${version}\r\nHost: a\r\n\r\n`, { method });
    if (valuesOf(answer.rawHeaders, "Connection").includes("close")) client = open(port);
    return answer;
  };
}

async function overHttp2({ openHttp2 }: TestTraffic, method: string): Promise<Ask> {
  const session = cleanup(connect(`http://127.0.0.1:${await listen(openHttp2)}`));
  return (at) => answerOf(session.request({ ":method": method, ":path": `/v2/${at}` }));
}

/** Before a head is read: too many connections, bytes that are no HTTP, plain HTTP on a port with TLS. */
async function onSocket({ runtime }: TestTraffic): Promise<Ask> {
  const rules = { header: "x-forwarded-for", trustedProxies: new NetworkSet([]), ipv6Prefix: 64 } as const;
  let next = 0;
  const port = await listen((socket) => {
    rejectOnSocket(socket, readPeer(socket.remoteAddress, rules), replies[next] as LocalReply, runtime);
  });
  return (at) => {
    next = at;
    return open(port).read();
  };
}

/** What a status needs besides. */
const ownHeaders: Readonly<Record<number, string>> = { 401: "WWW-Authenticate", 405: "Allow", 429: "Retry-After" };

describe.each<[carrier: string, method: string, open: (traffic: TestTraffic) => Promise<Ask>]>([
  ["HTTP/1.1", "GET", (traffic) => overHttp1(traffic, "GET", "1.1")],
  ["HTTP/1.0", "GET", (traffic) => overHttp1(traffic, "GET", "1.0")],
  ["HTTP/1.1", "HEAD", (traffic) => overHttp1(traffic, "HEAD", "1.1")],
  ["HTTP/2", "GET", (traffic) => overHttp2(traffic, "GET")],
  ["HTTP/2", "HEAD", (traffic) => overHttp2(traffic, "HEAD")],
  ["a socket without a request", "", onSocket],
])("%s, %s", (carrier, method, openCarrier) => {
  // Other tests have v2, on all carriers.
  const tried = method === "HEAD" ? formats.slice(1, 2) : carrier === "HTTP/1.1" ? formats : formats.slice(1);
  test.each(tried)("each reply in the format %s", async (errorFormat) => {
    const traffic: TestTraffic = createTestTraffic(
      {
        decide: ({ target }) => ({
          ...admitted(traffic.clock.nowMs),
          localReply: replies[Number(target.slice("/v2/".length))] ?? null,
        }),
      },
      { maxRequestsPerConnection: 1_000, errorFormat },
    );
    const ask = await openCarrier(traffic);
    const spelling = (name: string): string => (carrier === "HTTP/2" ? name.toLowerCase() : name);
    const names = [...sixFields, "Date", "X-Request-Id", "Cache-Control"].map(spelling);
    for (const [at, reply] of replies.entries()) {
      const answer = await ask(at);
      if (at === 0) expectContractFields(answer, { limit: 100, remaining: method === "" ? 100 : 99 }, spelling);
      const [body, type] = errorContent(errorFormat, reply.status, reply.message, reply.errMsg);
      const own = ownHeaders[reply.status];
      const expected = [...names, ...(own === undefined ? [] : [spelling(own)])];
      const sent = answer.rawHeaders.filter((name, i) => i % 2 === 0 && expected.includes(name));
      const described = ["Content-Type", "Content-Length"].map((name) => valuesOf(answer.rawHeaders, name));
      expect([reply.reason, answer.status, answer.body, described, sent.toSorted()]).toEqual([
        ...[reply.reason, reply.status, method === "HEAD" ? "" : body],
        ...[[[type], [`${body.length}`]], expected.toSorted()],
      ]);
      if (!/^[ -~]+\n?$/.test(body)) throw new Error(`not one line of ASCII: ${body}`);
    }
    expect(traffic.failures).toEqual([]);
  });
});

const throttled = ["Too Many Requests", "Too many requests, please try again later."] as const;
const noRoute = ["Not Found", "There is nothing at this path."] as const;
const one = [slidingPolicy({ limit: 1, windowMs: 60_000 })];

test.each(["problem", "plain"] as const)(
  "errors.format: %s, of the gateway: before, behind and within a request",
  async (format) => {
    const errors = { format };
    const { overrides, ca } = tls({
      errors,
      quota: { path: "/quota" },
      maxBodyBytes: 10,
      cors: { origins: ["https://a.test"] },
    });
    const { gateway, connect: connectTo } = await stageRaw(cleanup, () => {}, overrides, new FakeClock());
    const overTls = { tls: { ca } };
    const send = async (bytes: string, options = overTls as Parameters<typeof connectTo>[0]) => {
      const client = connectTo(options);
      client.write(bytes);
      return client.read();
    };
    const chunked = { method: "POST", fields: "Transfer-Encoding: chunked\r\n", body: "c\r\nhello world!\r\n" };
    const upgrade = "Connection: Upgrade\r\nUpgrade: x\r\n";
    const rows: [answer: FramedResponse, message: string, errMsg: string][] = [
      [
        await send(request("/v2/x"), {}),
        "Bad Request",
        "The request is plain HTTP, and this port expects TLS: use https.",
      ],
      [await send("nonsense\r\n\r\n"), "Bad Request", "The request is not well-formed HTTP."],
      [await send(request("/health", { fields: upgrade })), ...noRoute],
      [await send(request("/v2/x", chunked)), "Content Too Large", "The request body is larger than allowed."],
      [
        await send(request("/v2/x", { fields: "X_Real_IP: a\r\n" })),
        "Bad Request",
        "The header name X_Real_IP can be read as x-real-ip.",
      ],
      [
        await send(request("/quota", { method: "PUT" })),
        "Method Not Allowed",
        "Only GET and HEAD are possible at this path.",
      ],
    ];
    for (const [answer, message, errMsg] of rows) expectOwnAnswer(answer, message, errMsg, "GET", format);
    const toPage = await send(request("/health", { fields: "Origin: https://a.test\r\n" }));
    expectOwnAnswer(toPage, ...noRoute, "GET", format);
    expect(valuesOf(toPage.rawHeaders, "Access-Control-Allow-Origin")).toEqual(["https://a.test"]);
    // Refuses nothing.
    expect(JSON.parse((await send(request("/quota"))).body)).toHaveProperty("policies");
    expect((await send("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")).status).toBe(204);
    const http2 = await new Http2Client(gateway.traffic.port, ca, cleanup).ask({ path: "/health" });
    expect(http2.body).toBe(errorContent(format, 404, ...noRoute)[0]);
    // The admin API keeps its own.
    const admin = await fetch(`${gateway.adminUrl}/api/status`);
    expect(await admin.json()).toHaveProperty("errors.0.errMsg");
  },
);

describe("errors.format: problem", () => {
  const format = "problem";
  const errors = { format } as const;

  test("of a check over HTTP that is undecided", async () => {
    const { ask } = await stageDecision(cleanup, {}, { errors });
    const undecided = await ask("/elsewhere", `X-Forwarded-For: 192.0.2.1\r\n${token}`);
    const errMsg = "Decisions are at /auth-request, /forward-auth and /ext-authz/.";
    const [body, type] = errorContent(format, 404, "Not Found", errMsg);
    expect([undecided.body, valuesOf(undecided.rawHeaders, "Content-Type")]).toEqual([body, [type]]);
  });

  test("of Envoy's question about the quota", async () => {
    const { client } = await stageGrpc(cleanup, { errors, policies: one });
    const asked = () => call<{ raw_body: Buffer }>(client, shouldRateLimit, rateLimitRequest());
    await asked();
    expect(String((await asked()).message?.raw_body)).toBe(errorContent(format, 429, ...throttled)[0]);
  });

  test("of the plugin, and not of its app", async () => {
    const { connect: connectTo } = await startTestApp(cleanup, {
      clock: new FakeClock(),
      options: { errors },
      routes: (app) => void app.get("/x", async (_, reply) => reply.code(404).send({ message: "of the app" })),
    });
    expect((await connectTo().ask(request("/x"))).body).toBe('{"message":"of the app"}');
    const another = connectTo();
    another.write("\0\r\n\r\n");
    expectOwnAnswer(await another.read(), "Bad Request", "The request is not well-formed HTTP.", "GET", format);
  });
});

test("a reload changes the format of the next refusal, and not of one that is under way", async () => {
  const { upstream, gateway, connect: connectTo } = await stageRaw(cleanup, () => {});
  const client = connectTo();
  const refused = async () => {
    client.write(request("/health"));
    return client.read();
  };
  expectOwnAnswer(await refused(), ...noRoute);
  const late = connectTo();
  late.write(`${request("/v2/x", { method: "POST", fields: "Transfer-Encoding: chunked\r\n" })}`);
  await eventually("it is under way", () => upstream.bytes().includes("POST"));
  const changed = testSettings(upstream.url, { drain: { timeoutMs: 0 }, errors: { format: "problem" } });
  expect(await gateway.reload(changed)).toMatchObject({ ok: true, changed: ["errors.format"], restart: [] });
  expectOwnAnswer(await refused(), ...noRoute, "GET", "problem");
  expectOwnAnswer(await late.ask("zz\r\n"), "Bad Request", "The request is not well-formed HTTP.");
});
