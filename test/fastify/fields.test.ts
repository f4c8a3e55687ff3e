// Every way in which a Fastify app answers, as bytes on a socket: each answer has the six fields, Date and X-Request-Id
// once, with headgate's values, whatever the app writes under the same names and however it writes.
import { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply } from "fastify";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { expectContractFields, expectOwnAnswer } from "../support/contract-fields.ts";
import { valuesOf } from "../support/raw-client.ts";
import { request } from "../support/stage.ts";
import { startTestApp } from "./app.ts";

const cleanup = useCleanup();

const spoofed = {
  "ratelimit-limit": "7",
  "RateLimit-Remaining": "77777",
  "RATELIMIT-RESET": "1",
  "X-RateLimit-Limit": ["7", "8"],
  "x-ratelimit-remaining": "0",
  "X-Ratelimit-Reset": "1",
  RateLimit: '"a";r=1;t=1',
  "RateLimit-Policy": '"a";q=1;w=1',
  Date: "Mon, 01 Jan 2001 00:00:00 GMT",
  "x-request-id": "mine",
};
const spoofedList = Object.entries(spoofed).flatMap(([name, values]) =>
  [values].flat().flatMap((value) => [name, value]),
);

function spoof(reply: FastifyReply): FastifyReply {
  for (const [name, value] of Object.entries(spoofed)) reply.raw.setHeader(name, value);
  return reply.headers(spoofed);
}

async function* pieces(count: number): AsyncGenerator<string> {
  for (let i = 0; i < count; i += 1) yield "ok";
}

interface Row {
  readonly name: string;
  readonly routes?: (app: FastifyInstance) => void;
  readonly before?: (app: FastifyInstance) => void;
  readonly send?: string;
  readonly status?: number;
  readonly body?: string;
  readonly remaining?: number;
}

const get = (app: FastifyInstance, answer: (reply: FastifyReply) => unknown): void =>
  void app.get("/x", (_request, reply) => answer(reply));

const rows: readonly Row[] = [
  { name: "a value", routes: (app) => app.get("/x", async (_request, reply) => spoof(reply).send("ok")), body: "ok" },
  { name: "reply.send", routes: (app) => get(app, (reply) => void spoof(reply).send("ok")), body: "ok" },
  { name: "a buffer", routes: (app) => get(app, (reply) => spoof(reply).send(Buffer.from("ok"))), body: "ok" },
  { name: "JSON", routes: (app) => get(app, (reply) => spoof(reply).send({ a: 1 })), body: '{"a":1}' },
  { name: "nothing", routes: (app) => get(app, (reply) => spoof(reply).send()), body: "" },
  { name: "a stream", routes: (app) => get(app, (reply) => spoof(reply).send(Readable.from(pieces(2)))), body: "okok" },
  {
    name: "a web stream",
    routes: (app) => get(app, (reply) => spoof(reply).send(Readable.toWeb(Readable.from([Buffer.from("ok")])))),
    body: "ok",
  },
  {
    name: "a Response",
    routes: (app) =>
      get(app, (reply) => spoof(reply).send(new Response("ok", { headers: { "RateLimit-Limit": "1" } }))),
    body: "ok",
  },
  {
    name: "a stream that breaks before its first byte",
    routes: (app) =>
      get(app, (reply) =>
        spoof(reply).send(
          new Readable({
            read() {
              this.destroy(new Error("broken"));
            },
          }),
        ),
      ),
    status: 500,
  },
  { name: "204", routes: (app) => get(app, (reply) => spoof(reply).code(204).send()), status: 204, body: "" },
  { name: "304", routes: (app) => get(app, (reply) => spoof(reply).code(304).send()), status: 304, body: "" },
  { name: "a redirect", routes: (app) => get(app, (reply) => spoof(reply).redirect("/y")), status: 302 },
  { name: "HEAD", send: request("/x", { method: "HEAD" }), routes: (app) => get(app, (r) => spoof(r).send("ok")) },
  {
    name: "a hijacked reply that writes at once",
    routes: (app) => get(app, (reply) => void spoof(reply).hijack().raw.end("ok")),
    body: "ok",
  },
  {
    name: "a hijacked reply with its own head",
    routes: (app) => get(app, (reply) => void reply.hijack().raw.writeHead(201, "Made", spoofed).end("ok")),
    status: 201,
    body: "ok",
  },
  {
    name: "a hijacked reply with a head as a list",
    routes: (app) => get(app, (reply) => void reply.hijack().raw.writeHead(200, spoofedList).end("ok")),
    body: "ok",
  },
  {
    name: "a hijacked reply that flushes its head first",
    routes: (app) =>
      get(app, (reply) => {
        spoof(reply).hijack().raw.flushHeaders();
        reply.raw.end("ok");
      }),
    body: "ok",
  },
  {
    name: "an error that is thrown",
    routes: (app) =>
      get(app, (reply) => {
        spoof(reply);
        throw new Error("x");
      }),
    status: 500,
  },
  {
    name: "an error with headers",
    routes: (app) =>
      get(app, () => {
        throw Object.assign(new Error("x"), { statusCode: 418, headers: spoofed });
      }),
    status: 418,
  },
  {
    name: "the app's error handler",
    routes: (app) => {
      app.setErrorHandler((_error, _request, reply) => spoof(reply).code(503).send("down"));
      get(app, () => {
        throw new Error("x");
      });
    },
    status: 503,
    body: "down",
  },
  {
    name: "an onSend hook that sets them",
    routes: (app) => {
      app.addHook("onSend", async (_request, reply) => void spoof(reply));
      get(app, (reply) => reply.send("ok"));
    },
    body: "ok",
  },
  {
    name: "an onSend hook that throws",
    routes: (app) => {
      app.addHook("onSend", async () => {
        throw new Error("x");
      });
      get(app, (reply) => spoof(reply).send("ok"));
    },
    status: 500,
  },
  {
    name: "another plugin's writeHead",
    routes: (app) => {
      app.addHook("onRequest", async (_request, { raw }) => {
        const { writeHead } = raw;
        raw.writeHead = ((status: number, headers: object) => {
          raw.setHeader("RateLimit-Limit", "1");
          return writeHead.call(raw, status, { ...headers, "X-RateLimit-Limit": "1" });
        }) as typeof writeHead;
      });
      get(app, (reply) => reply.send("ok"));
    },
    body: "ok",
  },
  {
    name: "a hook behind the plugin that answers",
    routes: (app) => app.addHook("onRequest", async (_request, reply) => spoof(reply).code(403).send("no")),
    status: 403,
    body: "no",
  },
  {
    name: "a failed validation",
    routes: (app) => app.get("/x", { schema: { querystring: { type: "object", required: ["q"] } } }, async () => "ok"),
    status: 400,
  },
  {
    name: "a body that is not JSON",
    routes: (app) => app.post("/x", async () => "ok"),
    send: request("/x", {
      method: "POST",
      fields: "Content-Type: application/json\r\nContent-Length: 2\r\n",
      body: "{]",
    }),
    status: 400,
  },
  {
    name: "a body of an unknown type",
    routes: (app) => app.post("/x", async () => "ok"),
    send: request("/x", { method: "POST", fields: "Content-Type: a/b\r\nContent-Length: 2\r\n", body: "hi" }),
    status: 415,
  },
  {
    name: "a body over the app's bound",
    routes: (app) => app.post("/x", { bodyLimit: 1 }, async () => "ok"),
    send: request("/x", { method: "POST", fields: "Content-Type: text/plain\r\nContent-Length: 2\r\n", body: "hi" }),
    status: 413,
  },
  {
    name: "a handler that takes too long",
    routes: (app) => app.get("/x", { handlerTimeout: 20 }, () => {}),
    status: 503,
  },
  { name: "no such route", status: 404 },
  {
    name: "the app's own handler of 404s",
    routes: (app) => app.setNotFoundHandler((_request, reply) => spoof(reply).code(404).send("none")),
    status: 404,
    body: "none",
  },
  {
    name: "an encapsulated plugin's route",
    routes: (app) => void app.register(async (inner) => get(inner, (reply) => spoof(reply).send("ok"))),
    body: "ok",
  },
  {
    name: "a route from before the plugin",
    before: (app) => void app.register(async (inner) => get(inner, (reply) => spoof(reply).send("ok"))),
    body: "ok",
  },
  {
    name: "a target that the router cannot decode",
    send: request("/%zz"),
    status: 400,
    body: '{"message":"Bad Request","errors":[{"errMsg":"The request is not well-formed HTTP."}]}',
  },
  {
    name: "a parameter that is too long",
    routes: (app) => app.get("/y/:id", async () => "ok"),
    send: request(`/y/${"x".repeat(200)}`),
    status: 414,
  },
  { name: "not HTTP", send: "nonsense\r\n\r\n", status: 400, remaining: 100 },
  { name: "the preface of HTTP/2", send: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", status: 501, remaining: 100 },
  { name: "CONNECT", send: "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", status: 501, remaining: 100 },
  { name: "no Host", send: "GET /x HTTP/1.1\r\nAuthorization: Bearer t\r\n\r\n", status: 400 },
  { name: "OPTIONS *", send: request("*", { method: "OPTIONS" }), status: 204, remaining: 100 },
];

/** Of these no header is read, so the id is one of the gateway's. */
const unread: ReadonlySet<string> = new Set(["not HTTP", "the preface of HTTP/2", "CONNECT"]);

describe("an answer of the app", () => {
  test.each(rows)("$name has each field once", async (row) => {
    const { connect } = await startTestApp(cleanup, {
      ...(row.routes === undefined ? {} : { routes: row.routes }),
      ...(row.before === undefined ? {} : { before: row.before }),
    });
    const client = connect();
    const bytes = row.send ?? request("/x");
    client.write(bytes.replace("\r\n\r\n", "\r\nX-Request-Id: mine/1\r\n\r\n"));
    const [method = ""] = bytes.split(" ");
    const answer = await client.read({ method });
    expect(answer.status).toBe(row.status ?? 200);
    expectContractFields(answer, { limit: 100, remaining: row.remaining ?? 99 });
    expect(valuesOf(answer.rawHeaders, "X-Request-Id")).toEqual([
      unread.has(row.name) ? expect.stringMatching(/^[0-9a-f-]{36}$/) : "mine/1",
    ]);
    if (row.body !== undefined) expect(answer.body).toBe(row.body);
  });
});

test("several Set-Cookie lines arrive, however they were set", async () => {
  const { connect } = await startTestApp(cleanup, {
    routes: (app) => {
      get(app, (reply) => reply.header("set-cookie", "a=1").header("set-cookie", "b=2").send("ok"));
      app.get("/raw", (_request, reply) => {
        reply.hijack().raw.setHeader("X", "y");
        reply.raw.writeHead(200, ["Set-Cookie", "a=1", "Set-Cookie", "b=2"]).end("ok");
      });
    },
  });
  const client = connect();
  for (const target of ["/x", "/raw"]) {
    expect(valuesOf((await client.ask(request(target))).rawHeaders, "Set-Cookie")).toEqual(["a=1", "b=2"]);
  }
});

test.each([
  ["larger than headgate's, whose quota is used up,", 1, "5000", "5000"],
  ["smaller than headgate's, whose quota is used up,", 1, "1", "60"],
  ["that says nothing", 1, "soon", "60"],
  ["that says nothing, with quota left,", 2, "soon", "soon"],
  ["smaller than headgate's, with quota left,", 2, "1", "1"],
])("of a 429 of the app's own, a Retry-After %s", async (_, limit, given, sent) => {
  const { connect } = await startTestApp(cleanup, {
    clock: new FakeClock(),
    options: { policies: [{ name: "per-ip", limit, window: "60s" }] },
    routes: (app) => get(app, (reply) => reply.code(429).header("retry-after", given).send("later")),
  });
  const { status, rawHeaders } = await connect().ask(request("/x"));
  expect(status).toBe(429);
  expect(valuesOf(rawHeaders, "Retry-After")).toEqual([sent]);
});

test("a refusal is headgate's own to the byte, whatever hooks have set, but lets a browser read it", async () => {
  const { connect } = await startTestApp(cleanup, {
    before: (app) =>
      app.addHook("onRequest", async (_request, reply) => {
        reply.raw.setHeader("content-language", "de");
        spoof(reply).headers({
          "content-encoding": "gzip",
          etag: "a",
          "access-control-allow-origin": "*",
          vary: "Origin",
        });
      }),
    options: { policies: [{ name: "per-ip", limit: 1, window: "60s" }] },
    routes: (app) => get(app, (reply) => reply.send("ok")),
  });
  const client = connect();
  await client.ask(request("/x"));
  const answer = await client.ask(request("/x"));
  expectContractFields(answer, { limit: 1, remaining: 0 });
  expectOwnAnswer(answer, "Too Many Requests", "Too many requests, please try again later.");
  expect(valuesOf(answer.rawHeaders, "Access-Control-Allow-Origin")).toEqual(["*"]);
  expect(valuesOf(answer.rawHeaders, "Vary")).toEqual(["Origin"]);
  expect(valuesOf(answer.rawHeaders, "Content-Encoding")).toEqual([]);
  expect(valuesOf(answer.rawHeaders, "ETag")).toEqual([]);
  expect(valuesOf(answer.rawHeaders, "Content-Language")).toEqual([]);
});

test("an early hint carries no field, and the answer behind it each one once", async () => {
  const { connect } = await startTestApp(cleanup, {
    routes: (app) =>
      get(app, (reply) => {
        reply.writeEarlyHints({ link: "</a>; rel=preload" });
        return reply.send("ok");
      }),
  });
  const client = connect();
  const early = await client.ask(request("/x"));
  expect(early.status).toBe(103);
  expect(early.rawHeaders.map((text) => text.toLowerCase())).not.toContain("ratelimit-limit");
  expectContractFields(await client.read(), { limit: 100, remaining: 99 });
});

test("the structured fields are sent where they are asked for", async () => {
  const { connect } = await startTestApp(cleanup, {
    clock: new FakeClock(),
    options: { fields: ["standard", "structured"] },
    routes: (app) => get(app, (reply) => spoof(reply).send("ok")),
  });
  const { rawHeaders } = await connect().ask(request("/x"));
  expect(valuesOf(rawHeaders, "RateLimit")).toEqual([`"per-ip";r=99;t=60`]);
  expect(valuesOf(rawHeaders, "X-RateLimit-Limit")).toEqual([]);
});

test("inject gets the same fields", async () => {
  const { app } = await startTestApp(cleanup, {
    routes: (app) => get(app, (reply) => spoof(reply).header("set-cookie", ["a=1", "b=2"]).send("ok")),
  });
  const { headers } = await app.inject({ url: "/x", headers: { authorization: "Bearer t" } });
  expect(headers).toMatchObject({
    "ratelimit-limit": "100",
    "ratelimit-remaining": "99",
    "set-cookie": ["a=1", "b=2"],
  });
});
