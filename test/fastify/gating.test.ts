// What is refused before the app sees it, what is left to the app, and whom it charges: by bytes on a socket.
import { execFileSync } from "node:child_process";
import type { FastifyInstance } from "fastify";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { expectContractFields, expectOwnAnswer } from "../support/contract-fields.ts";
import { eventually, within } from "../support/eventually.ts";
import { valuesOf } from "../support/raw-client.ts";
import { request } from "../support/stage.ts";
import { accessLines, startTestApp } from "./app.ts";

const cleanup = useCleanup();

/** An app that counts what reaches it. */
function counting(): { routes: (app: FastifyInstance) => void; seen: string[] } {
  const seen: string[] = [];
  const routes = (app: FastifyInstance): void => {
    app.addHook("onRequest", async ({ method, url }) => void seen.push(`${method} ${url}`));
    app.all("/*", async () => "ok");
  };
  return { routes, seen };
}

const anonymous = (target: string, fields = "", method = "GET"): string =>
  `${method} ${target} HTTP/1.1\r\nHost: a\r\n${fields}\r\n`;

test("the request beyond the limit is a 429 that no hook and no handler sees", async () => {
  const { routes, seen } = counting();
  const { connect } = await startTestApp(cleanup, {
    options: { policies: [{ name: "per-ip", limit: 1, window: "60s" }] },
    routes,
  });
  const client = connect();
  expect((await client.ask(request("/x"))).status).toBe(200);
  expectOwnAnswer(await client.ask(request("/x")), "Too Many Requests", "Too many requests, please try again later.");
  expect(seen).toEqual(["GET /x"]);
});

test.each([
  ["no token", anonymous("/x"), 401, 99],
  ["no token on a path that the app has not", anonymous("/none"), 401, 99],
  ["a target that the router cannot decode, without a token", anonymous("/%zz"), 401, 99],
  ["TRACE", request("/x", { method: "TRACE" }), 501, 99],
  ["a field with an underscore", request("/x", { fields: "X_Forwarded_For: 1.2.3.4\r\n" }), 400, 99],
  ["an announced body over the bound", request("/x", { method: "POST", fields: "Content-Length: 11\r\n" }), 413, 99],
  ["length and encoding", request("/x", { fields: "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n" }), 400, 100],
  ["201 fields", request("/x", { fields: "X: y\r\n".repeat(199) }), 431, 100],
  ["a path with a byte that ends it for some", request("/x%00"), 400, 99],
])("%s never reaches the app", async (_, bytes, status, remaining) => {
  const { routes, seen } = counting();
  const { connect } = await startTestApp(cleanup, { options: { maxBodyBytes: 10 }, routes });
  const answer = await connect().ask(bytes);
  expect(answer.status).toBe(status);
  expectContractFields(answer, { limit: 100, remaining });
  expect(seen).toEqual([]);
});

describe("a request behind a message that ends its connection", () => {
  test.each([
    ["refused with its body unread", anonymous("/x", "Content-Length: 60\r\n", "POST"), 401],
    ["of doubtful framing", request("/x", { fields: "Host: b\r\n" }), 400],
    [
      "that asks for an upgrade nobody serves",
      request("/x", { fields: "Connection: Upgrade\r\nUpgrade: h2c\r\n" }),
      200,
    ],
  ])("%s is never served", async (_, first, status) => {
    const { routes, seen } = counting();
    const { connect } = await startTestApp(cleanup, { routes });
    const client = connect();
    expect((await client.ask(first + request("/smuggled"))).status).toBe(status);
    expect(await within("the connection ends", client.closed)).toBe("end");
    expect(client.rest).toBe("");
    expect(seen).not.toContain("GET /smuggled");
  });
});

test("the client reads the refusal of a body that it is still sending", async () => {
  const { connect } = await startTestApp(cleanup, {});
  const client = connect().write(anonymous("/x", "Content-Length: 3000000\r\n", "POST"));
  for (let i = 0; i < 30; i += 1) client.write("x".repeat(100_000));
  expect((await client.read()).status).toBe(401);
  expect(await within("the connection ends", client.closed)).toBe("end");
});

describe("routes", () => {
  test("a route with headgate: false is neither limited nor asked for a token, and shows the quota", async () => {
    const { connect, ...app } = await startTestApp(cleanup, {
      options: { policies: [{ name: "per-ip", limit: 1, window: "60s" }] },
      routes: (app) => {
        app.get("/health", { config: { headgate: false } }, async () => "up");
        app.get("/x", async () => "ok");
      },
    });
    const client = connect();
    const ask = async (bytes: string) => {
      client.write(bytes);
      return client.read();
    };
    expectContractFields(await ask(anonymous("/health")), { limit: 1, remaining: 1 });
    expect((await ask(request("/x"))).status).toBe(200);
    expect((await ask(request("/x"))).status).toBe(429);
    const answer = await ask(anonymous("/health"));
    expect(answer).toMatchObject({ status: 200, body: "up" });
    expectContractFields(answer, { limit: 1, remaining: 0 });
    // A spelling that the router takes for another route is another route.
    expect((await ask(anonymous("/Health"))).status).toBe(429);
    await eventually("all are logged", () => accessLines(app).length === 5);
    expect(accessLines(app).map(({ decision, auth }) => `${decision} ${auth}`)).toEqual([
      "observed skipped",
      "admitted accepted",
      "throttled skipped",
      "observed skipped",
      "throttled skipped",
    ]);
  });

  test("with routes, what is outside of them is left to the app, and what may be inside of one is not", async () => {
    const { routes, seen } = counting();
    const { connect } = await startTestApp(cleanup, { options: { routes: ["/v1/", "/v2/"] }, routes });
    const client = connect();
    const ask = async (bytes: string) => {
      return (await client.ask(bytes)).status;
    };
    expect(await ask(anonymous("/page"))).toBe(200);
    for (const target of ["/v1/x", "/V2/x", "//v2/x", "/%76%32/x", "/v2"])
      expect(await ask(anonymous(target))).toBe(401);
    for (const target of ["/v1/../v2/x", "/v2/..%2fx", "/v1;a/x"]) expect(await ask(request(target))).toBe(400);
    expect(seen).toEqual(["GET /page"]);
  });

  test("of a rewritten target the one that the router sees counts", async () => {
    const { connect } = await startTestApp(cleanup, {
      options: { routes: ["/v1/"] },
      server: { rewriteUrl: ({ url = "" }) => url.replace("/old/", "/v1/") },
      routes: (app) => app.get("/v1/x", async () => "ok"),
    });
    expect((await connect().ask(anonymous("/old/x"))).status).toBe(401);
  });
});

describe("the client", () => {
  test("is the socket's address, whatever trustProxy makes of a header", async () => {
    const { connect, ...app } = await startTestApp(cleanup, {
      server: { trustProxy: true },
      options: { policies: [{ name: "per-ip", limit: 1, window: "60s" }] },
      routes: (app) => app.get("/x", async () => "ok"),
    });
    const client = connect();
    for (const [address, status] of [
      ["1.1.1.1", 200],
      ["2.2.2.2", 429],
    ] as const) {
      expect((await client.ask(request("/x", { fields: `X-Forwarded-For: ${address}\r\n` }))).status).toBe(status);
    }
    await eventually("both are logged", () => accessLines(app).length === 2);
    expect(accessLines(app).map(({ client }) => client)).toEqual(["127.0.0.1", "127.0.0.1"]);
  });

  test("is the last address that no trusted proxy has, where proxies are trusted", async () => {
    const { connect, ...app } = await startTestApp(cleanup, {
      options: { clientAddress: { trustedProxies: ["127.0.0.0/8"] } },
      routes: (app) => app.get("/x", async () => "ok"),
    });
    const client = connect();
    client.write(request("/x", { fields: "X-Forwarded-For: 6.6.6.6, 9.9.9.9\r\nX-Request-Id: from-the-proxy\r\n" }));
    expect(valuesOf((await client.read()).rawHeaders, "X-Request-Id")).toEqual(["from-the-proxy"]);
    await eventually("it is logged", () => accessLines(app).length === 1);
    expect(accessLines(app)[0]).toMatchObject({ client: "9.9.9.9", requestId: "from-the-proxy" });
  });
});

test("100 Continue is sent to nobody who is refused, and to whom the app reads", async () => {
  const { connect } = await startTestApp(cleanup, { routes: (app) => app.post("/x", async ({ body }) => body) });
  const expecting = "Expect: 100-continue\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n";
  expect((await connect().ask(anonymous("/x", expecting, "POST"))).status).toBe(401);
  const client = connect();
  expect((await client.ask(request("/x", { method: "POST", fields: expecting }))).status).toBe(100);
  expect(await client.ask("hi")).toMatchObject({ status: 200, body: "hi" });
  const odd = connect().write(request("/x", { method: "POST", fields: "Expect: 200-maybe\r\nContent-Length: 2\r\n" }));
  expect((await odd.read()).status).toBe(417);
  expect((await connect().ask(request("/%zz", { method: "POST", fields: expecting }))).status).toBe(400);
});

test("bytes that break the body of a request are answered in its place, and those behind one after it", async () => {
  const { connect } = await startTestApp(cleanup, {
    routes: (app) => {
      app.post("/x", async () => "never");
      app.get("/x", async () => "ok");
    },
  });
  const broken = connect();
  broken.write(request("/x", { method: "POST", fields: "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n" }));
  const answer = await broken.ask("2\r\nhi\r\nzz\r\n");
  expectOwnAnswer(answer, "Bad Request", "The request is not well-formed HTTP.");
  expectContractFields(answer, { limit: 100, remaining: 99 });
  expect(await within("the connection ends", broken.closed)).toBe("end");

  const behind = connect();
  expect(await behind.ask(`${request("/x")}nonsense\r\n\r\n`)).toMatchObject({ status: 200, body: "ok" });
  expect((await behind.read()).status).toBe(400);
  expect(await within("the connection ends", behind.closed)).toBe("end");
});

test("the metrics are those of the gateway, in both formats", async () => {
  const { app, connect } = await startTestApp(cleanup, {
    routes: (app) => {
      app.get("/x", async () => "ok");
      app.get("/metrics", { config: { headgate: false } }, async ({ headers }, reply) => {
        const { contentType, body } = await app.headgate.metrics(headers.accept);
        return reply.type(contentType).send(body);
      });
    },
  });
  const client = connect();
  await client.ask(request("/x"));
  const { body } = await client.ask(anonymous("/metrics"));
  expect(body).toContain('headgate_requests_total{route="/",method="GET",status_class="2xx"} 1');
  expect(body).toContain("headgate_client_connections 1");
  const { contentType } = await app.headgate.metrics("application/openmetrics-text;version=1.0.0");
  expect(contentType).toMatch(/^application\/openmetrics-text/);
});

test("a request whose connection was reset before it was accepted reaches no handler: its client is not known", async () => {
  const { routes, seen } = counting();
  const stage = await startTestApp(cleanup, { routes });
  const script = `
    const socket = require("node:net").connect(${stage.port}, "127.0.0.1", () => {
      socket.write(${JSON.stringify(request("/v2/left"))}, () => socket.resetAndDestroy());
    });`;
  // The app, which runs in this process, accepts nothing in the meantime.
  execFileSync(process.execPath, ["-e", script]);
  const next = stage.connect();
  expect((await next.ask(request("/v2/next"))).status).toBe(200);
  expect(seen).toEqual(["GET /v2/next"]);
  expect(accessLines(stage).map(({ client }) => client)).toEqual(["127.0.0.1"]);
});
