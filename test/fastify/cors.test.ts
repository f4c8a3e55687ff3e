// Browsers, in an app: preflights that the plugin answers, and what a page may read of the responses of the app and of the
// upstream.
import type { FastifyInstance, FastifyReply } from "fastify";
import { describe, expect, test } from "vitest";
import { Authority } from "../support/certificates.ts";
import { useCleanup } from "../support/cleanup.ts";
import { Http2Client } from "../support/http2-client.ts";
import { response } from "../support/stage.ts";
import { startRawUpstream } from "../support/upstream.ts";
import { startTestApp, type TestAppOptions } from "./app.ts";

const cleanup = useCleanup();
const page = "https://app.example";
const cors = { origins: [page] };
const exposed =
  "RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, " +
  "Retry-After, Date, X-Request-Id";
const allows = "access-control-allow-origin";
const exposes = "access-control-expose-headers";

const corsFields = (rawHeaders: readonly string[]): string[][] =>
  rawHeaders.flatMap((name, i) =>
    i % 2 === 0 && /^access-control-/i.test(name) ? [[name.toLowerCase(), rawHeaders[i + 1] ?? ""]] : [],
  );

async function start(test: TestAppOptions) {
  const { connect } = await startTestApp(cleanup, test);
  const client = connect();
  return async (target: string, fields = "Authorization: Bearer x\r\n", method = "GET") => {
    client.write(`${method} ${target} HTTP/1.1\r\nHost: a\r\nOrigin: ${page}\r\n${fields}\r\n`);
    const { status, rawHeaders } = await client.read();
    return [status, corsFields(rawHeaders)];
  };
}

const asked = "Access-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: x-a\r\n";

test("a preflight is answered before the app sees it, and not for what the app has left out", async () => {
  const ask = await start({
    options: { cors: { ...cors, preflights: "answer" } },
    routes: (app) => {
      app.options("/own", async () => "own");
      app.options("/left-out", { config: { headgate: false } }, async () => "own");
    },
  });
  for (const target of ["/own", "/nothing"]) {
    expect(await ask(target, asked, "OPTIONS")).toEqual([
      204,
      [
        [allows, page],
        [exposes, exposed],
        ["access-control-allow-methods", "PUT"],
        ["access-control-allow-headers", "x-a"],
        ["access-control-max-age", "600"],
      ],
    ]);
  }
  expect(await ask("/left-out", asked, "OPTIONS")).toEqual([200, []]);
});

const sets = (app: FastifyInstance, path: string, answer: (reply: FastifyReply) => unknown): void =>
  void app.get(path, async (_request, reply) => answer(reply));

describe("a page of a listed origin may read the quota in a response of the app", () => {
  const routes = (app: FastifyInstance): void => {
    sets(app, "/plain", (reply) => reply.header(allows, page).send("ok"));
    sets(app, "/own", (reply) => reply.headers({ [allows]: page, [exposes]: "X-Own" }).send("ok"));
    sets(app, "/set", (reply) => {
      reply.raw.setHeader(allows, page);
      reply.raw.setHeader(exposes, ["X-Own", "X-Other"]);
      return reply.send("ok");
    });
    sets(app, "/unreadable", (reply) => reply.header(exposes, "X-Own").send("ok"));
  };
  const expected: [path: string, fields: string[][]][] = [
    [
      "/plain",
      [
        [allows, page],
        [exposes, exposed],
      ],
    ],
    [
      "/own",
      [
        [allows, page],
        [exposes, "X-Own"],
        [exposes, exposed],
      ],
    ],
    [
      "/set",
      [
        [allows, page],
        [exposes, "X-Other"],
        [exposes, "X-Own"],
        [exposes, exposed],
      ],
    ],
    ["/unreadable", [[exposes, "X-Own"]]],
  ];
  const sorted = (fields: string[][]): string[] => fields.map((each) => each.join(": ")).toSorted();

  test("over HTTP/1", async () => {
    const ask = await start({ options: { cors }, routes });
    for (const [path, fields] of expected) {
      const [status, got] = await ask(path);
      expect([path, status, sorted(got as string[][])]).toEqual([path, 200, sorted(fields)]);
    }
  });

  test("over HTTP/2", async () => {
    const authority = new Authority(cleanup);
    const { key, cert } = authority.issue();
    const server = { http2: true, https: { key, cert } } as NonNullable<TestAppOptions["server"]>;
    const { port } = await startTestApp(cleanup, { options: { cors }, routes, server });
    const client = new Http2Client(port, authority.cert, cleanup);
    for (const [path, fields] of expected) {
      const { status, rawHeaders } = await client.ask({ path, fields: { origin: page } });
      expect([path, status, sorted(corsFields(rawHeaders))]).toEqual([path, 200, sorted(fields)]);
    }
  });
});

test("and of the upstream, whether it or a hook of the app lets the page read it", async () => {
  const own = new Map([
    ["/allows", `Access-Control-Allow-Origin: ${page}\r\n`],
    ["/exposes", "Access-Control-Expose-Headers: X-Own\r\n"],
  ]);
  const upstream = await startRawUpstream((socket, data) => {
    const [, target = ""] = data.toString().split(" ");
    socket.write(response("ok", own.get(target) ?? ""));
  });
  cleanup(() => upstream.close());
  const options = { cors, upstream: { url: upstream.url } };
  const ask = await start({ options });
  expect(await ask("/allows")).toEqual([
    200,
    [
      [allows, page],
      [exposes, exposed],
    ],
  ]);
  expect(await ask("/exposes")).toEqual([200, [[exposes, "X-Own"]]]);
  const asHook = await start({
    options,
    routes: (app) =>
      app.addHook("onRequest", async (_request, reply) => {
        reply.headers({ [allows]: page, [exposes]: "X-Hook" });
      }),
  });
  const [status, fields] = await asHook("/allows");
  expect([status, (fields as string[][]).map(([, value]) => value).toSorted()]).toEqual([
    200,
    [exposed, "X-Hook", page].toSorted(),
  ]);
});
